package consumer

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// goroutines lists those that carry a label and are inside one of these functions of the package.
func goroutines(t testing.TB, label string, functions ...string) (found []string) {
	t.Helper()
	for _, stack := range stacks(t, label) {
		for _, f := range functions {
			if strings.Contains(stack, "/consumer."+f) {
				found = append(found, f)
			}
		}
	}
	return found
}

// waits reports whether the goroutine inside a function waits for others.
func waits(t testing.TB, label, function string) bool {
	t.Helper()
	for _, stack := range stacks(t, label) {
		if strings.Contains(stack, "/consumer."+function+"+") && strings.Contains(stack, "sync.(*WaitGroup).Wait") {
			return true
		}
	}
	return false
}

func stacks(t testing.TB, label string) (labelled []string) {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(group, `"`+label+`"`) {
			labelled = append(labelled, group)
		}
	}
	return labelled
}

// Run returns when the last of its goroutines has ended: nothing is observed, run or sent after it.
func TestRunWaitsForItsGoroutines(t *testing.T) {
	t.Parallel()
	all := []string{"(*Consumer).intake", "(*Consumer).process", "(*Consumer).guarded", "(*Consumer).beat", "(*Consumer).sweep"}
	cfg := quick()
	cfg.StopGrace = 0
	w := newWorld(t, cfg, script{"A": {untilCut, succeed}})
	for i := range 20 {
		w.script[fmt.Sprint("R", i)] = []run{succeed}
		w.publish(fmt.Sprint("R", i))
	}
	k := w.open()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	label := t.Name()
	returned := make(chan struct{})
	go pprof.Do(ctx, pprof.Labels("test", label), func(ctx context.Context) {
		defer close(returned)
		if err := k.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if left := goroutines(t, label, all...); len(left) > 0 {
			t.Errorf("Run has returned, and these go on: %v", left)
		}
	})
	for i := range 20 {
		w.await(fmt.Sprint("R", i), Succeeded)
	}
	w.publish("A") // alone, or a timer might start what works it, and that goroutine has no label
	natstest.Eventually(t, "every kind of goroutine to run", func() bool { return len(goroutines(t, label, all...)) >= len(all) })
	natstest.Eventually(t, "the last report to run", func() bool { return w.ran("A") == 1 })
	cancel()
	awaitClosed(t, "Run to return", returned)
	w.start()
	w.check(invariant.Tally{Done: 21})
}

// Run waits for its sweep and its heartbeats, too, when nothing else is left.
func TestRunWaitsForTheSlowest(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*world, *worker, chan struct{}){
		"sweep": func(w *world, k *worker, release chan struct{}) { // while it reports a burial
			w.publish("A")
			w.exhaust(stream.Reports)
			k.cfg.Observe = func(Outcome) { <-release }
		},
		"beat": func(_ *world, k *worker, release chan struct{}) { // while it asks whether a message is lost
			d := new(delivery)
			d.mu.Lock()
			k.hand.add(d)
			go func() {
				defer d.mu.Unlock()
				<-release
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{})
			k := w.open()
			release := make(chan struct{})
			free := sync.OnceFunc(func() { close(release) })
			hold(w, k, release)
			label := t.Name()
			pprof.Do(t.Context(), pprof.Labels("test", label), func(context.Context) { w.run(k) })
			t.Cleanup(free)
			held := map[string]string{"sweep": "(*Consumer).observe", "beat": "(*delivery).heartbeat"}[name]
			natstest.Eventually(t, "it to be held", func() bool { return len(goroutines(t, label, held)) > 0 })
			k.stop()
			natstest.Eventually(t, "the others to end", func() bool {
				return len(goroutines(t, label, "(*Consumer).intake", "(*Consumer).waitForWork")) == 0
			})
			natstest.Eventually(t, "Run to wait or to return", func() bool {
				return len(goroutines(t, label, "(*Consumer).Run")) == 0 || waits(t, label, "(*Consumer).Run")
			})
			select {
			case <-k.returned:
				t.Error("Run has returned")
			default:
			}
			free()
			awaitClosed(t, "Run to return", k.returned)
		})
	}
}

// A handler that ignores its context is judged as a time-out, and holds its slot until it returns.
func TestStuckHandlerHoldsItsSlot(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1
	cfg.AttemptTimeout = 3 * time.Second
	var (
		release  = make(chan struct{})
		released atomic.Bool
	)
	after := func(ctx context.Context) (report.Result, error) {
		if !released.Load() {
			t.Error("a report was begun while the only slot was held")
		}
		return succeed(ctx)
	}
	w := newWorld(t, cfg, script{"B": {after}, "A": {func(ctx context.Context) (report.Result, error) {
		<-release
		return succeed(ctx)
	}, after}})
	w.publish("A")
	k := w.start()
	w.await("A", Retried)
	w.publish("B")
	natstest.Eventually(t, "the handler to count as stuck", func() bool { return k.stuck.Load() == 1 })
	sweeps := w.attempted("$JS.API.CONSUMER.INFO.REPORTS.workers")
	natstest.Eventually(t, "some sweeps to pass", func() bool { return sweeps.Load() >= 3 })
	released.Store(true)
	close(release)
	w.check(invariant.Tally{Done: 2})
	if got := k.stuck.Load(); got != 0 {
		t.Errorf("%d handlers count as stuck, want none", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.outcomes["A"][0]; o.Code != report.CodeTimeout || o.Attempts != 1 {
		t.Errorf("the first attempt was judged %+v, want a time-out", o)
	}
}

// Run does not wait for ever for a handler that never returns; its error counts them, and the reports are handed back.
func TestRunGivesUpOnStuckHandlers(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.StopGrace = 0
	cfg.Workers = 2
	cfg.AttemptTimeout, cfg.Queues.AckWait = time.Minute, time.Minute
	release := make(chan struct{})
	never := func(ctx context.Context) (report.Result, error) {
		<-release
		return succeed(ctx)
	}
	w := newWorld(t, cfg, script{"A": {never, succeed}, "B": {never, succeed}})
	t.Cleanup(func() { // after Run, before the server stops: so that nothing outlives the test
		close(release)
		w.workers[0].inWork.Wait()
	})
	w.publish("A", "B")
	k := w.start()
	natstest.Eventually(t, "both handlers to run", func() bool { return w.ran("A")+w.ran("B") == 2 })
	err := k.end()
	if err == nil || err.Error() != "2 handlers ignore that their context has ended" {
		t.Errorf("Run returned %v, want an error that counts two handlers", err)
	}
	if a, b := w.saw("A", HandedBack), w.saw("B", HandedBack); a != 1 || b != 1 {
		t.Errorf("handed back A %d and B %d times, want once each", a, b)
	}
	w.workers = w.workers[1:]
	w.start()
	w.check(invariant.Tally{Done: 2})
	w.workers = append([]*worker{k}, w.workers...)
	for _, site := range []string{"A", "B"} {
		if got := w.entry(site).Attempts; got != 1 {
			t.Errorf("%s took %d attempts, want 1", site, got)
		}
	}
}
