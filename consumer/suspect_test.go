package consumer

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A report takes its worker down at every attempt. Those that are in work beside it are charged once: afterwards it is tried alone.
func TestWorkerKiller(t *testing.T) {
	t.Parallel()
	neighbours := []string{"A", "B", "C"}
	var (
		w       *world
		beside  atomic.Int64 // attempts that run now
		crowded atomic.Int64 // kills with others in work
	)
	started := make(chan string, 16)
	var kills atomic.Int64
	kill := func(ctx context.Context) (report.Result, error) {
		if kills.Add(1) == 1 { // it waits for its neighbours
			for range neighbours {
				<-started
			}
		}
		if beside.Load() > 0 {
			crowded.Add(1)
		}
		w.newest().nc.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	first := func(ctx context.Context) (report.Result, error) {
		beside.Add(1)
		defer beside.Add(-1)
		started <- ""
		<-ctx.Done()
		return nil, ctx.Err()
	}
	cfg := quick()
	cfg.Queues.AckWait = 4 * time.Second // a heartbeat that a busy machine delays would charge somebody, too
	w = newWorld(t, cfg, script{"A": {first, succeed}, "B": {first, succeed}, "C": {first, succeed}})
	w.script["K"] = times(4, kill)
	w.publish(append([]string{"K"}, neighbours...)...)
	for n := 1; n <= 4; n++ {
		k := w.start(func(k *worker) { k.cfg.Worker = fmt.Sprint("killed-", n) })
		natstest.Eventually(t, "the report to take its worker down", k.nc.IsClosed)
		k.Cut()
		k.end()
	}
	w.start()
	w.check(invariant.Tally{Done: 3, Dead: 1})
	if n := crowded.Load(); n != 1 {
		t.Errorf("it took others down %d times, want once", n)
	}
	for _, site := range neighbours {
		if got := w.entry(site).Attempts; got != 2 {
			t.Errorf("%s took %d attempts, want 2", site, got)
		}
	}
	l := w.letter("K")
	if l.Class != report.ClassAbandoned || l.Attempts != 4 || !strings.HasSuffix(l.Reason, "; tried alone by killed-2, killed-3, killed-4") {
		t.Errorf("the letter says %s after %d attempts, %q", l.Class, l.Attempts, l.Reason)
	}
	if got := w.events(l.Key, audit.Suspect); len(got) != 3 {
		t.Errorf("the trail: %+v", got)
	}
}

// What a stop finds in hand and hands back unworked keeps its suspicion, if there is one.
func TestSuspicionIsHandedBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script []run
		first  func(*world)
		alone  int // attempts
	}{
		"its worker died": {[]run{succeed}, func(w *world) {
			died := w.start(dyingAt("4 admitted"))
			natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
		}, 1},
		"it failed": {[]run{fail, succeed}, func(w *world) {
			first, off := shutAfterRetry(w)
			w.run(first)
			<-off
			if err := first.end(); err != nil {
				t.Error(err)
			}
			first.gate.open()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Workers = 1 // no pull is open while the report is in hand
			w := newWorld(t, cfg, script{"A": tt.script})
			w.publish("A")
			tt.first(w)
			second := w.start(at("1 pulled", func(k *worker) { k.stop() }))
			awaitClosed(t, "the second worker to end", second.returned)
			if w.saw("A", HandedBack) == 0 {
				t.Error("the second worker has handed nothing back")
			}
			w.start()
			w.check(invariant.Tally{Done: 1})
			if got := len(w.events(report.NewKey("A", uri("A")), audit.Suspect)); got != tt.alone {
				t.Errorf("tried alone %d times, want %d", got, tt.alone)
			}
			if got := w.entry("A").Attempts; got != 2 {
				t.Errorf("the ledger counts %d attempts, want 2", got)
			}
		})
	}
}

// An attempt that finds its upstream down has ended with a verdict: the report waits aside, and is no suspect when it comes back. One that is
// put aside untried stays one.
func TestSuspicionOfTheParked(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.ParkMax, cfg.Workers = time.Hour, 1
	cfg.Backoff = report.Backoff{Base: time.Minute, Max: time.Minute} // nobody probes
	w := newWorld(t, cfg, script{"A": {refuse}})
	w.publish("A")
	w.startDying(1, "4 admitted")
	k := w.start()
	w.await("A", Parked)
	k.gate.shut()
	w.awaitPause(k)
	w.publish("B")
	c, err := w.js.Consumer(t.Context(), stream.Reports, stream.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	if msg, err := c.Next(); err != nil || msg.Nak() != nil { // another worker ends without a verdict
		t.Fatal(err)
	}
	k.gate.open()
	w.await("B", Parked)
	for site, want := range map[string]bool{"A": false, "B": true} {
		m, err := w.queues().Copy(t.Context(), report.NewToken(site), report.NewKey(site, uri(site)))
		if err != nil {
			t.Fatal(err)
		}
		if m.Carried.Suspect != want {
			t.Errorf("%s comes back as a suspect: %v, want %v", site, m.Carried.Suspect, want)
		}
	}
	w.check(invariant.Tally{Waiting: 2})
}

// A suspect that has to wait for another, while a copy of its report is queued, is a duplicate: it is not buried for deliveries that nobody has worked.
func TestRepeatIsASuspect(t *testing.T) {
	t.Parallel()
	repeated := make(chan struct{})
	cfg := quick()
	cfg.Queues.AckWait = 6 * time.Second // time enough for what is held
	w := newWorld(t, cfg, script{"A": {func(ctx context.Context) (report.Result, error) {
		<-repeated
		return succeed(ctx)
	}}})
	w.publish("A")
	died := w.start(dyingAt("4 admitted"))
	natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
	w.requeue("A", stream.Carried{PublishedAt: time.Now()})
	w.start(func(k *worker) { k.slots.alone = true }) // another suspect is tried
	w.await("A", Duplicate)
	close(repeated)
	w.check(invariant.Tally{Done: 1})
	if got := w.saw("A", Succeeded); got != 1 || w.saw("A", Buried) > 0 {
		t.Errorf("the outcomes are %+v", w.outcomes["A"])
	}
}
