package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/config"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A site that was not imported is unknown, and its reports die of that.
func TestSites(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(t, "sites.csv", "firm,site_id\nAcme,TWR-8842\nAcme,TWR-1180\n")
	s.write(t, "sites.jsonl", `{"site_id":"TWR-8842"}`+"\n"+`{"site_id":"TWR-1180"}`+"\n"+`{"site_id":"TWR-2231"}`+"\n")
	s.want(t, 0, []string{"sites", "import", "sites.csv"}, "2 sites are known, and no others\n")
	s.want(t, 0, []string{"sites", "import", "sites.jsonl", "--json"}, `{"sites":3}`)
	if e := s.want(t, 0, []string{"sites", "ls"}); strings.Count(e.stdout, "\n") != 3 || !strings.Contains(e.stdout, "TWR-2231\n") {
		t.Errorf("sites ls:\n%s", e.stdout)
	}
	s.want(t, 0, []string{"sites", "ls", "--json"}, `{"site_id":"TWR-1180"}`)
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "testdata/overnight.csv"}, "done 3\n", "unknown-site 8\n")
	s.want(t, 0, []string{"dlq", "ls", "--site", "TWR-9017"}, "TWR-9017 poison unknown-site 0 0 ")
}

func TestLettersInBulk(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_MAX_ATTEMPTS=1")
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "testdata/overnight.csv"}, "done 7\n", "dead-lettered 4\n")
	e := s.want(t, 0, []string{"dlq", "export", "--class", "poison"})
	lines := strings.Split(strings.TrimSpace(e.stdout), "\n")
	for _, line := range lines {
		var letter struct {
			Key   report.Key      `json:"key"`
			Event json.RawMessage `json:"event"`
		}
		if err := json.Unmarshal([]byte(line), &letter); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if event, err := report.Decode(letter.Event); err != nil || event.Key() != letter.Key || event.Metadata["firm"] == nil {
			t.Errorf("%v: the payload is not whole in %s", err, line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d letters, want 3:\n%s", len(lines), e.stdout)
	}

	s.want(t, 0, []string{"results", "--since", "1h"}, "TWR-8842 ")
	s.want(t, 0, []string{"results", "--since", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, "no settled report\n")
	s.want(t, 0, []string{"results", "--until", "1h"}, "no settled report\n")
	s.want(t, 0, []string{"results", "--until", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, "TWR-8842 ")

	s.want(t, 0, []string{"dlq", "ls", "--due-within", "1000000h"}, "TWR-9017 ")
	if e := s.want(t, exitUsage, []string{"dlq", "replay", "--all"}); !strings.Contains(e.stderr, "this sends 4 reports back to the queue: say so with --yes") {
		t.Errorf("without --yes: %s", e.stderr)
	}
	s.want(t, 0, []string{"dlq", "replay", "--all", "--yes"}, "replayed 4 in the queue again\n")
	if e := s.want(t, 0, []string{"dlq", "replay", "--all", "--yes"}); !strings.Contains(e.stderr, "no dead letter matches") {
		t.Errorf("replayed twice: %s", e.stderr)
	}
	s.want(t, exitPerson, []string{"run", "--drain"}, "dead-lettered 4\n")
}

// The beginning of a key that fits two letters chooses neither.
func TestAmbiguousKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	keys := map[string]bool{}
	list, shared := "site_id,source_uri\n", ""
	for n := 0; shared == ""; n++ { // at the 17th at the latest two share their first digit
		uri := fmt.Sprintf("nowhere://%d.pdf", n)
		list += "TWR-1," + uri + "\n"
		first := string(report.NewKey("TWR-1", uri))[:1]
		if keys[first] {
			shared = first
		}
		keys[first] = true
	}
	s.write(t, "list.csv", list)
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "list.csv"}, "unsupported-scheme ")
	for _, args := range [][]string{{"dlq", "show", shared}, {"show", shared}, {"why", shared}, {"dlq", "replay", shared}, {"dlq", "discard", shared, "--reason", "x"}} {
		if e := s.want(t, exitUsage, args); !strings.Contains(e.stderr, "more than one dead letter begins like that") || !strings.Contains(e.stderr, "give more of the key") {
			t.Errorf("%v: %s", args, e.stderr)
		}
	}
	for _, args := range [][]string{{"show"}, {"why"}, {"dlq", "show"}} { // as every list prints it
		s.want(t, 0, append(args, report.NewKey("TWR-1", "nowhere://0.pdf").Short()), "TWR-1\n")
	}
	if err := hintLetter(dlq.ErrConflict); !errors.Is(err, dlq.ErrConflict) || err.Error() != dlq.ErrConflict.Error() {
		t.Errorf("another error became %v", err)
	}
}

func TestSetupConfigVersion(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_WORKERS=3", "GUYLINE_NATS_URL=")
	s.want(t, 0, []string{"version"}, "guyline dev, go1.")
	s.want(t, 0, []string{"version", "--json"}, `"version":"dev"`)
	s.want(t, 0, []string{"config"}, "VARIABLE VALUE DEFAULT ALLOWED MEANING\n", "GUYLINE_WORKERS 3 ")
	e := s.want(t, 0, []string{"config", "--json"})
	found := false
	for line := range strings.Lines(e.stdout) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		found = found || strings.Contains(line, `"GUYLINE_WORKERS"`) && strings.Contains(line, `"3"`)
	}
	if !found {
		t.Errorf("config --json does not show GUYLINE_WORKERS:\n%s", e.stdout)
	}
	s.want(t, 0, []string{"setup"}, "REPORTS ready\n", "REPORTS_DLQ ready\n", "reports_ledger ready\n")
	s.want(t, 0, []string{"setup", "--json"}, `"REPORTS_DLQ"`)
	s.want(t, 0, []string{"status"}, "waiting 0\n")
}

// On a server of one's own the streams are made by setup alone.
func TestServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	s := newShop(t, "GUYLINE_NATS_URL="+server.URL())
	for _, args := range [][]string{{"status"}, {"publish", "testdata/overnight.csv"}, {"run", "--drain"}} {
		if e := s.want(t, exitFailed, args); !strings.Contains(e.stderr, "setup") || strings.Count(e.stderr, "guyline: ") != 1 {
			t.Errorf("%v before setup: %s", args, e.stderr)
		}
	}
	s.want(t, 0, []string{"setup"}, "REPORTS ready\n")
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"}, "accepted 11\n", "duplicate 1\n")
	m := nats.NewMsg("reports.submitted.TWR-1")
	m.Header = nats.Header{"X-C": {"3"}, "X-A": {"1"}, "X-D": {"4"}, "X-B": {"2"}}
	m.Data = []byte(`{"site_id":"TWR-1","source_uri":"nowhere://1"}`)
	if _, err := server.Conn(t).RequestMsg(m, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	s.want(t, exitPerson, []string{"run", "--drain"}, "done 7\n", "dead-lettered 5\n")
	s.want(t, 0, []string{"dlq", "show", report.NewKey("TWR-1", "nowhere://1").Short()}, "X-A 1\nX-B 2\nX-C 3\nX-D 4\n")
	s.want(t, 0, []string{"dlq", "ls"}, "TWR-9017 poison malformed-pdf 1 0 ")
	if e := s.want(t, 0, []string{"status"}, "done 7\n"); strings.Contains(e.stdout, "paused") {
		t.Errorf("nothing is paused:\n%s", e.stdout)
	}
	if _, err := server.JetStream(t).PauseConsumer(t.Context(), stream.Reports, stream.Consumer, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.want(t, 0, []string{"status"}, "paused REPORTS nothing is delivered: `nats consumer resume REPORTS workers`\n")
	s.want(t, 0, []string{"status", "--json"}, `"paused":["REPORTS"]`)
}

// A token in GUYLINE_NATS_URL is shown by no command.
func TestTokenIsNotShown(t *testing.T) {
	t.Parallel()
	holder := newShop(t)
	holder.worker(t)
	address, err := os.ReadFile(filepath.Join(holder.dir, "guyline-data/nats.url"))
	if err != nil {
		t.Fatal(err)
	}
	token, _, found := strings.Cut(strings.TrimPrefix(string(address), "nats://"), "@")
	if !found || len(token) < 16 {
		t.Fatalf("%s has no token", address)
	}
	wrong := newShop(t, "GUYLINE_NATS_URL="+strings.Replace(string(address), token, "secret", 1))
	if e := wrong.want(t, exitFailed, []string{"status"}); !strings.Contains(e.stderr, "does not know this user or token\n") || strings.Contains(e.stderr, "secret") {
		t.Errorf("with a wrong token: %s", e.stderr)
	}
	s := newShop(t, "GUYLINE_LOG_LEVEL=debug", "GUYLINE_NATS_URL="+string(address))
	for _, args := range []string{"setup", "status", "doctor", "doctor --json", "config", "config --json", "publish --site TWR-1 --uri nowhere.pdf", "run --drain"} {
		e := s.do(t, "", strings.Fields(args)...)
		if e.code != 0 && e.code != exitPerson {
			t.Errorf("%s: exit %d\n%s", args, e.code, e.stderr)
		}
		if strings.Contains(e.stdout+e.stderr, token[:16]) {
			t.Errorf("%s shows the token:\n%s%s", args, e.stdout, e.stderr)
		}
	}
}

func TestHintDisk(t *testing.T) {
	t.Parallel()
	a := &app{cfg: config.Config{DataDir: "the-store"}}
	store, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir(), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	silent := fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	for _, tt := range []struct {
		s    *session
		err  error
		want string
	}{
		{&session{}, silent, "no answer: context deadline exceeded"},
		{&session{store: store}, stream.ErrQueueFull, stream.ErrQueueFull.Error()},
		{&session{store: store}, silent, "no answer: context deadline exceeded: is the disk of the-store full?"},
	} {
		if got := a.hintDisk(tt.s, tt.err); got.Error() != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
