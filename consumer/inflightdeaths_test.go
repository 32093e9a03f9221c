package consumer

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// The server has forgotten the deliveries in which the process died. The file has not: they are charged, and the report that was
// tried often enough is buried unrun.
func TestInflightChargesWhatTheServerForgot(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1
	w := newWorld(t, cfg, script{"A": {succeed}, "B": {fail, succeed}, "C": {succeed}})
	w.publish("A", "B", "C", "D")
	path := w.left(t, map[string]int{"A": 1, "B": 2, "D": 4})
	w.start(func(k *worker) { k.noted(t, path) })
	w.check(invariant.Tally{Done: 3, Dead: 1})
	for site, want := range map[string]int{"A": 2, "B": 4, "C": 1} {
		if got := w.entry(site).Attempts; got != want {
			t.Errorf("%s took %d attempts, want %d", site, got, want)
		}
	}
	if l := w.letter("D"); l.Class != report.ClassAbandoned || w.ran("D") != 0 {
		t.Errorf("D ran %d times, and its letter says %s", w.ran("D"), l.Class)
	}
	again, err := openInflight(t.Context(), path, w.queues())
	if err != nil || len(again.spent) != 0 {
		t.Errorf("in the end the file says %v, %v", again.spent, err)
	}
}

// A process is killed with its server in the middle of attempts, again and again: each is charged although nothing else remembers.
func TestInflightOfAKilledProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {succeed}})
	w.publish("A")
	path := filepath.Join(t.TempDir(), "inflight")
	a, err := w.queues().Next(t.Context(), stream.Reports, 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		f, err := openInflight(t.Context(), path, w.queues())
		if err != nil {
			t.Fatal(err)
		}
		if got := spentOf(f, a); got != n-1 {
			t.Fatalf("after %d deaths the file says %d", n-1, got)
		}
		f.begin([]*delivery{inAttempt(a, n)}, 4) // and never ends
		f.close()
	}
	w.cfg.InFlight = path
	w.start()
	natstest.Eventually(t, "A to land", func() bool { return w.saw("A", Succeeded) == 1 })
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A").Attempts; got != 4 {
		t.Errorf("it took %d attempts, want 4", got)
	}
}

// What was in hand when the process died is suspected like what the server has counted: each is tried alone, so that the one that killed the
// process charges the others once.
func TestInflightSuspects(t *testing.T) {
	t.Parallel()
	sites := []string{"A", "B", "C", "D"}
	var beside, crowded atomic.Int64
	alone := func(ctx context.Context) (report.Result, error) {
		if beside.Add(1) > 1 {
			crowded.Add(1)
		}
		defer beside.Add(-1)
		return succeed(ctx)
	}
	w := newWorld(t, quick(), script{"A": {alone}, "B": {alone}, "C": {alone}, "D": {alone}})
	w.publish(sites...)
	path := w.left(t, map[string]int{"A": 1, "B": 1, "C": 2, "D": 1})
	w.start(func(k *worker) { k.noted(t, path) })
	w.check(invariant.Tally{Done: 4})
	for i, site := range sites {
		if got := w.events(w.keys[i], audit.Suspect); len(got) != 1 {
			t.Errorf("%s: the trail says %+v", site, got)
		}
		if want := map[string]int{"C": 3}[site]; w.entry(site).Attempts != max(2, want) {
			t.Errorf("%s took %d attempts", site, w.entry(site).Attempts)
		}
	}
	if crowded.Load() > 0 {
		t.Errorf("%d times a suspect was tried beside others", crowded.Load())
	}
}

// A delivery that the server has forgotten makes a suspect of its report also if the one before failed, as the trail says; and does so once.
func TestInflightSuspectAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.publish("A")
	path := w.left(t, map[string]int{"A": 2})
	k := w.open()
	k.noted(t, path)
	m, err := w.queues().Next(t.Context(), stream.Reports, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		d := inAttempt(m, 2)
		d.ahead.failed = true
		d.forgotten, d.unseen = k.inflight.forgotten(m, 2)
		if suspect, err := k.isSuspect(d); err != nil || suspect != want || d.forgotten != 1 {
			t.Errorf("look %d: suspect %v after %d forgotten deliveries, %v", i, suspect, d.forgotten, err)
		}
	}
	w.check(invariant.Tally{Waiting: 1})
}

// Whatever is worked, or waits for it, is in the file, and nothing after it has ended.
func TestInflightOfAWorker(t *testing.T) {
	t.Parallel()
	sites := []string{"A", "B", "C", "D", "E", "F"}
	running, release := make(chan string, len(sites)), make(chan struct{})
	hold := func(ctx context.Context) (report.Result, error) {
		running <- ""
		<-release
		return succeed(ctx)
	}
	s := script{}
	for _, site := range sites {
		s[site] = []run{hold}
	}
	cfg := quick()
	cfg.Workers, cfg.InFlight = len(sites), filepath.Join(t.TempDir(), "inflight")
	w := newWorld(t, cfg, s)
	w.publish(sites...)
	k := w.start()
	for range sites {
		<-running
	}
	f, err := openInflight(t.Context(), cfg.InFlight, w.queues())
	if err != nil {
		t.Fatal(err)
	}
	defer f.file.Close()
	for i := range sites {
		m, err := w.queues().Next(t.Context(), stream.Reports, uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if got := spentOf(f, m); got != 1 {
			t.Errorf("the file says that %s was spent %d times", m.Event.SiteID, got)
		}
	}
	close(release)
	w.check(invariant.Tally{Done: len(sites)})
	k.end()
	if info, err := os.Stat(cfg.InFlight); err != nil || info.Size() != 0 {
		t.Errorf("in the end the file has %d bytes, %v", info.Size(), err)
	}
}

// The process died with its server in the middle of a burial, and the server has forgotten the delivery. The file has not: the burial is
// finished, and the report is not worked again.
func TestInflightOfABurial(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"7c letter", "7c recorded"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": {poison}})
			w.publish("A")
			path := w.left(t, map[string]int{"A": 1})
			w.startDying(1, step)
			w.srv.Forget(t, stream.Reports, stream.Consumer)
			w.start(func(k *worker) { k.noted(t, path) })
			w.check(invariant.Tally{Dead: 1})
			w.checkLetter("A", dlq.Letter{Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "no trailer", Attempts: 1})
		})
	}
}
