package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/doctor"
	"github.com/guyline/guyline/proof"
)

// guarded starts a server on which the user admin may do everything and the user limited not, and which tells the account how it
// writes to its disk.
func guarded(t *testing.T, limits string) *server.Server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf(`
		listen: "127.0.0.1:-1"
		jetstream { store_dir: %q, sync_interval: "90s", max_file: 1TB }
		accounts {
			SYS { users: [{user: sys, password: x}], exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response_type: stream}] }
			APP {
				jetstream: enabled
				imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}]
				users: [{user: admin, password: x}, {user: limited, password: x, permissions: {%s}}]
			}
		}
		system_account: SYS`, dir, limits)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return srv
}

// as connects as a user. What the connection hears is in the function that it returns.
func as(t *testing.T, srv *server.Server, user string) (jetstream.JetStream, func() []doctor.Denied) {
	t.Helper()
	var mu sync.Mutex
	var heard []doctor.Denied
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo(user, "x"), nats.Timeout(time.Minute), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		if d, ok := doctor.Denial(err); ok {
			heard = append(heard, d)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js, func() []doctor.Denied {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(heard)
	}
}

// What a user may not do is named, where the server leaves it to look like time-outs.
func TestPermissions(t *testing.T) {
	t.Parallel()
	srv := guarded(t, `publish: {deny: ["reports.dlq.>", "$JS.API.STREAM.INFO.KV_reports_ledger", "$JS.ACK.REPORTS.>"]}`)
	admin, none := as(t, srv, "admin")
	cfg := consumer.DefaultConfig()
	if err := consumer.Setup(t.Context(), admin, cfg.Queues); err != nil {
		t.Fatal(err)
	}
	if err := proof.Setup(t.Context(), admin, 1); err != nil {
		t.Fatal(err)
	}
	look := func(js jetstream.JetStream, heard func() []doctor.Denied) []doctor.Finding {
		f, err := doctor.Look(t.Context(), js, doctor.Facts{Wanted: doctor.Wanted{Queues: cfg.Queues, Workers: 4}}, heard)
		if err != nil {
			t.Fatal(err)
		}
		return doctor.Examine(f)
	}
	found := look(admin, none)
	if got := names(found); got != "durability power failure, workers workers" || !strings.Contains(found[0].What, "syncs its disk every 1m30s, and there is one replica") {
		t.Errorf("the admin sees %v", found)
	}
	limited, heard := as(t, srv, "limited")
	var lines []string
	for _, x := range look(limited, heard) {
		if x.Check == "permission" || x.Check == "unread" {
			lines = append(lines, x.String())
		}
	}
	slices.Sort(lines)
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		"KV_reports_ledger: it could not be read", "may not publish to reports.dlq.probe.probe: workers cannot bury reports without it",
		"may not publish to $JS.API.STREAM.INFO.KV_reports_ledger: ", "may not publish to $JS.ACK.REPORTS.workers.probe: settled reports are delivered again",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q", want)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines, want 4:\n%s", len(lines), all)
	}
}

// Without an inbox nothing can be seen, and that is said.
func TestNoInbox(t *testing.T) {
	t.Parallel()
	srv := guarded(t, `subscribe: {deny: ["_INBOX.>"]}`)
	js, heard := as(t, srv, "limited")
	_, err := doctor.Look(t.Context(), js, doctor.Facts{Wanted: doctor.Wanted{Queues: consumer.DefaultConfig().Queues}}, heard)
	if err == nil {
		t.Fatal("it could look")
	}
	if d := heard(); len(d) == 0 || d[0].Act != "subscribe" || !strings.HasPrefix(d[0].Subject, "_INBOX.") {
		t.Errorf("heard %v", d)
	}
}
