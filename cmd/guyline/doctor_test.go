package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/doctor"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/stream"
)

func TestDoctorEmbedded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, exitUsage, []string{"doctor"})
	s.want(t, 0, []string{"setup"})
	s.want(t, 0, []string{"doctor"}, "note power failure: every write is synced to the disk", "nothing needs a person\n")
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"})
	s.want(t, exitPerson, []string{"doctor"}, "trouble workers: none is pulling, and 11 reports wait: nothing is worked; `guyline run` starts one\n")
	lazy := &shop{s.dir, []string{"GUYLINE_SYNC=interval", "GUYLINE_MAX_ATTEMPTS=9"}}
	lazy.want(t, exitPerson, []string{"doctor"}, "trouble power failure: GUYLINE_SYNC is interval", "trouble REPORTS/workers: its MaxDeliver is 6, but GUYLINE_MAX_ATTEMPTS + 2 is 11",
		"4 in trouble: `guyline setup` repairs 2, a person must look at 2\n")
}

func TestDoctorServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js := server.JetStream(t)
	s := newShop(t, "GUYLINE_NATS_URL="+server.URL()+",nats://me:secret@127.0.0.1:1")
	if e := s.want(t, exitPerson, []string{"doctor"}, "trouble REPORTS: the stream does not exist: publishers are refused; `guyline setup` repairs it\n",
		"trouble nats://***@127.0.0.1:1: it does not answer"); strings.Contains(e.stdout, "secret") {
		t.Errorf("a password is shown:\n%s", e.stdout)
	}
	s.env[0] = "GUYLINE_NATS_URL=" + server.URL()
	s.want(t, 0, []string{"setup"})
	s.want(t, 0, []string{"doctor"}, "note power failure: how the server syncs its disk cannot be read by this user", "nothing needs a person\n")

	other := &shop{s.dir, append([]string{"GUYLINE_MAX_ATTEMPTS=9"}, s.env...)}
	if e := other.want(t, exitFailed, []string{"run"}); strings.Contains(e.stderr, "working") || strings.Count("\n"+e.stderr, "\nguyline: ") != 1 {
		t.Errorf("a worker that disagrees with the consumers says:\n%s", e.stderr)
	}

	c, err := js.Consumer(t.Context(), stream.Reports, stream.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.CachedInfo().Config
	cfg.BackOff = []time.Duration{time.Second}
	if _, err := js.UpdateConsumer(t.Context(), stream.Reports, cfg); err != nil {
		t.Fatal(err)
	}
	e := s.want(t, exitPerson, []string{"doctor", "--json"}, `{"level":"trouble","check":"backoff","where":"REPORTS/workers",`)
	for line := range strings.Lines(e.stdout) {
		var f doctor.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.What == "" {
			t.Errorf("%v in %s", err, line)
		}
	}
	s.want(t, exitPerson, []string{"doctor"}, "1 in trouble: `guyline setup` repairs all of it\n")
	s.want(t, 0, []string{"setup"})
	s.want(t, 0, []string{"doctor"})

	// What setup leaves to a person, it says.
	letters, err := js.Stream(t.Context(), dlq.Stream)
	if err != nil {
		t.Fatal(err)
	}
	old := letters.CachedInfo().Config
	old.MaxAge = 720 * time.Hour
	if _, err := js.UpdateStream(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if e := s.want(t, exitPerson, []string{"setup"}, "REPORTS_DLQ ready\n"); !strings.Contains(e.stderr, "REPORTS_DLQ: it drops messages after 30 days") {
		t.Errorf("setup says:\n%s", e.stderr)
	}
	// What it cannot change, it refuses.
	sealed := old
	sealed.Sealed, sealed.MaxAge = true, 0
	if _, err := js.UpdateStream(t.Context(), sealed); err != nil {
		t.Fatal(err)
	}
	if e := s.want(t, exitFailed, []string{"setup"}); !strings.Contains(e.stderr, "guyline: set up stream REPORTS_DLQ: it is sealed, which cannot be changed: save what it holds") {
		t.Errorf("setup says:\n%s", e.stderr)
	}
	s.want(t, exitPerson, []string{"doctor"}, "trouble REPORTS_DLQ: it is sealed")

	server.Stop(t)
	if e := s.want(t, exitFailed, []string{"doctor"}); strings.Count(e.stderr, "\n") != 1 {
		t.Errorf("without a server:\n%s", e.stderr)
	}
}

// A server without JetStream, as nats-server starts without options, is told what it lacks.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	server, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Shutdown)
	if !server.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	s := newShop(t, "GUYLINE_NATS_URL="+server.ClientURL())
	for _, args := range []string{"setup", "status", "run", "doctor"} {
		if e := s.want(t, exitFailed, []string{args}); !strings.Contains(e.stderr, "start it with `nats-server -js`") {
			t.Errorf("%s says:\n%s", args, e.stderr)
		}
	}
}

// A cluster gets its replicas by setup, and the doctor names a server that is away.
func TestDoctorCluster(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t)
	s := newShop(t, "GUYLINE_NATS_URL="+cluster.URL())
	s.want(t, 0, []string{"setup"})
	s.env = append(s.env, "GUYLINE_REPLICAS=3")
	s.want(t, exitPerson, []string{"doctor"}, "trouble REPORTS: it has 1 replica, but GUYLINE_REPLICAS is 3")
	s.want(t, 0, []string{"setup"})
	natstest.Eventually(t, "a healthy cluster", func() bool { return s.do(t, "", "doctor").code == 0 })
	s.env[1] = "GUYLINE_REPLICAS=1"
	if e := s.want(t, exitFailed, []string{"setup"}); !strings.Contains(e.stderr, "set GUYLINE_REPLICAS=3, or take them away by hand") {
		t.Errorf("setup says:\n%s", e.stderr)
	}
	s.env[1] = "GUYLINE_REPLICAS=3"
	leader := cluster.StreamLeader(t, stream.Reports)
	cluster.Stop(t, leader)
	natstest.Eventually(t, "the doctor to miss it", func() bool {
		e := s.do(t, "", "doctor")
		return e.code == exitPerson && strings.Contains(e.stdout, "a replica is away: ") && strings.Contains(e.stdout, "it does not answer")
	})
	if e := s.do(t, "", "doctor", "--json"); strings.Contains(e.stdout, `"check":"leader"`) {
		t.Errorf("two of three make no leader:\n%s", e.stdout)
	}
}
