package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// The README's first command, and what it says to do then.
func TestOvernight(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, exitPerson, []string{"run", "--publish", "testdata/overnight.csv", "--drain"},
		"done 7\nduplicates 1\ndead-lettered 4\nmalformed-pdf 1\nno-pages 1\nnot-a-pdf 1\nnot-found 1\n", "guyline dlq replay --all")
	s.want(t, 0, []string{"status"}, "waiting 0\n", "in work 0 ", "done 7\n", "dead 4 1 exhausted, 3 poison\n", "stranded 0\n", "workers none is pulling")
	e := s.want(t, 0, []string{"results", "--json"})
	if lines := strings.Count(e.stdout, "\n"); lines != 7 || !strings.Contains(e.stdout, `"pages":30`) {
		t.Errorf("%d results:\n%s", lines, e.stdout)
	}
	s.want(t, 0, []string{"results", "--site", "TWR-8842"}, "testdata/reports/twr8842_q2.pdf 1 {")
	s.want(t, 0, []string{"dlq", "ls"}, "TWR-7733 exhausted not-found 4 0 ", "TWR-9017 poison malformed-pdf 1 0 ", "exhausted 4 attempts:")
	s.want(t, 0, []string{"dlq", "verify"}, "4 letters are sound, 0 are not")
	s.want(t, 0, []string{"show", "TWR-8842", "testdata/reports/twr8842_q2.pdf"}, "fate done\n")
	s.want(t, exitPerson, []string{"show", "TWR-8842", "elsewhere.pdf"}, "fate unknown\n")

	key := report.NewKey("TWR-9017", "testdata/reports/twr9017_q2.pdf")
	s.want(t, 0, []string{"dlq", "show", key.Short()}, "key "+string(key)+"\n", `{"site_id":"TWR-9017","source_uri":"testdata/reports/twr9017_q2.pdf"`)
	s.want(t, 0, []string{"dlq", "replay", key.Short()}, "replayed 1 ")
	s.want(t, 0, []string{"show", string(key)}, "fate waiting\n")
	s.want(t, exitPerson, []string{"run", "--drain"}, "dead-lettered 1\n")
	s.want(t, 0, []string{"dlq", "show", key.Short()}, "replays 1\n")

	repaired, err := os.ReadFile(filepath.Join(s.dir, "testdata/repaired/twr9017_q2.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "testdata/reports/twr9017_q2.pdf"), repaired, 0o644); err != nil {
		t.Fatal(err)
	}
	s.want(t, 0, []string{"dlq", "replay", string(key)}, "replayed 1 ")
	s.want(t, 0, []string{"run", "--drain"}, "done 1\n", "dead-lettered 0\n")
	s.want(t, 0, []string{"show", string(key)}, "fate done\n")
	s.want(t, 0, []string{"why", string(key)}, "Landed at", "Before that it failed twice, was dead twice and was replayed twice.\n", " committed 1 ")
	s.want(t, 0, []string{"audit", "log", string(key)}, "death", "replay")
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"}, "accepted 3\n", "already done 9\n")
}

// The same commands connect to a running worker.
func TestWhileRunning(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_REPLAY_EVERY=0")
	w := s.worker(t)
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"}, "accepted 11\n") // the twelfth is a duplicate, or already done
	natstest.Eventually(t, "the batch to be worked", func() bool {
		var c fate.Counts
		e := s.do(t, "", "status", "--json")
		return json.Unmarshal([]byte(e.stdout), &c) == nil && c.Done == 7 && c.DeadTotal() == 4 && c.Pulling > 0
	})
	s.want(t, 0, []string{"dlq", "replay", "--code", "not-a-pdf"}, "replayed 1 ")
	natstest.Eventually(t, "the replayed report to die again", func() bool {
		return strings.Contains(squeeze(s.do(t, "", "dlq", "ls", "--code", "not-a-pdf").stdout), "not-a-pdf 1 1 ")
	})
	key := report.NewKey("TWR-7051", "testdata/reports/twr7051_q2.pdf")
	s.want(t, 0, []string{"dlq", "discard", key.Short(), "--reason", "the firm sent a web page"}, "discarded 1 given up")
	s.want(t, 0, []string{"show", string(key)}, "fate discarded\n", "reason the firm sent a web page")
	second := s.want(t, exitFailed, []string{"run"})
	if said := strings.Split(strings.TrimSuffix(second.stderr, "\n"), "\n"); !strings.Contains(said[len(said)-1], "pid ") {
		t.Errorf("a second run says:\n%s", second.stderr)
	}
	if e := w.stop(syscall.SIGTERM); e.code != 0 {
		t.Errorf("stopped: exit %d\n%s", e.code, e.stderr)
	}
	s.want(t, 0, []string{"status"}, "done 7\n", "dead 3 ")
}

// A run that ends when the queues are empty does not fill them by itself, however long it takes.
func TestDrainReplaysNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var up atomic.Bool
	files := http.FileServer(http.Dir(filepath.Join(s.dir, "testdata/reports")))
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if up.Load() {
			files.ServeHTTP(rw, r)
			return
		}
		http.NotFound(rw, r)
	}))
	t.Cleanup(site.Close)
	s.env = []string{"GUYLINE_ALLOW_HOSTS=127.0.0.1", "GUYLINE_MAX_DELAY=400ms"}
	s.want(t, 0, []string{"publish", "--site", "TWR-1", "--uri", site.URL + "/twr8842_q2.pdf"}, "accepted")
	s.want(t, exitPerson, []string{"run", "--drain"}, "dead-lettered 1\n")
	up.Store(true)
	s.want(t, 0, []string{"publish", "--site", "TWR-2", "--uri", site.URL + "/twr8842_q2.pdf"}, "accepted")
	s.want(t, 0, []string{"publish", "--site", "TWR-3", "--uri", "missing.pdf"}, "accepted")
	s.env = []string{"GUYLINE_ALLOW_HOSTS=127.0.0.1", "GUYLINE_REPLAY_EVERY=1m", "GUYLINE_BASE_DELAY=1s"} // it takes seven seconds, and a worker looks after one and a half
	s.want(t, exitPerson, []string{"run", "--drain"}, "done 1\n", "dead-lettered 1\n")
	s.want(t, 0, []string{"dlq", "ls", "--site", "TWR-1"}, "TWR-1 exhausted not-found 4 0 ")
}

// A worker that was killed leaves no obstacle and no loss.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_ACK_WAIT=1s")
	w := s.worker(t)
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"}, "accepted 11\n")
	w.stop(syscall.SIGKILL)
	s.want(t, 0, []string{"status"}, "workers none is pulling")
	if e := s.do(t, "", "run", "--drain"); e.code != exitPerson && e.code != 0 {
		t.Errorf("run after a kill: exit %d\n%s", e.code, e.stderr)
	}
	s.want(t, 0, []string{"status"}, "waiting 0\n", "in work 0 ", "done 7\n", "dead 4 ")
}

func TestDemo(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	e := s.want(t, 0, []string{"demo"}, "\ndead-lettered: 1\n", "done: TWR-8842 at attempt 2", "dead: TWR-9017, replays 1")
	if !strings.HasSuffix(e.stdout, "\ndead-lettered after replay: 1\n") {
		t.Errorf("the demo ends with\n%s", e.stdout)
	}
	if strings.Count(e.stdout, "done: ") != 1 || !strings.Contains(e.stdout, "scripted handler") {
		t.Errorf("the demo says\n%s", e.stdout)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "guyline-data")); err == nil {
		t.Error("the demo left a store behind")
	}
}
