package consumer

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// startDying starts one worker after the other, each of which dies right after a row, and waits for each death.
func (w *world) startDying(times int, step string) {
	w.Helper()
	for range times {
		k := w.start(dyingAt(step))
		natstest.Eventually(w, "a worker to die after "+step, k.nc.IsClosed)
	}
}

// A report that kills its worker at every attempt is buried by a spare delivery, which does not run it.
func TestEveryAttemptKillsTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": times(4, succeed)})
	w.publish("A")
	w.startDying(4, "5 attempted")
	w.start()
	w.check(invariant.Tally{Dead: 1})
	if got := w.ran("A"); got != 4 {
		t.Errorf("the handler ran %d times, want 4", got)
	}
	l := w.letter("A")
	if l.Class != report.ClassAbandoned || l.Code != report.CodeAbandoned || l.Attempts != 4 {
		t.Errorf("letter says %s %s after %d attempts, want abandoned after 4", l.Class, l.Code, l.Attempts)
	}
	if got := w.saw("A", Buried); got != 1 {
		t.Errorf("buried %d times, want once", got)
	}
}

// A letter keeps its class and reason although every delivery, the spare ones too, dies before the message is let go.
func TestEveryBurialKillsTheWorker(t *testing.T) {
	t.Parallel()
	const undecodable = `{"site_id":`
	for name, tt := range map[string]struct {
		step   string // after which each of the three deliveries dies
		run    run    // nil for an undecodable event
		class  report.Class
		code   report.Code
		reason string
	}{
		"poison":      {"7c recorded", poison, report.ClassPoison, report.CodeMalformedPDF, "no trailer"},
		"exhausted":   {"7c recorded", fail, report.ClassExhausted, report.CodeServerError, "exhausted 1 attempts: 503"},
		"undecodable": {"7c letter", nil, report.ClassPoison, report.CodeUndecodable, "undecodable event: it is not JSON: it is empty or cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Queues.MaxAttempts = 1
			w := newWorld(t, cfg, script{"A": {tt.run}})
			if tt.run != nil {
				w.publish("A")
			} else {
				w.publishRaw("A", nil, []byte(undecodable))
			}
			w.startDying(3, tt.step)
			w.start() // its sweep finds the message
			w.check(invariant.Tally{Dead: 1})
			l, err := w.letters().Current(t.Context(), "*", w.keys[0])
			if err != nil {
				t.Fatal(err)
			}
			if l.Class != tt.class || l.Code != tt.code || l.Reason != tt.reason {
				t.Errorf("letter says %s %s %q, want %s %s %q", l.Class, l.Code, l.Reason, tt.class, tt.code, tt.reason)
			}
			if got := w.events(l.Key, audit.Death); len(got) != 1 {
				t.Errorf("the trail has %d deaths, want 1", len(got))
			}
			if tt.run != nil && w.ran("A") != 1 {
				t.Errorf("the handler ran %d times, want once", w.ran("A"))
			}
		})
	}
}

// The server goes away for a moment right after a row; the worker lives on.
func TestServerRestartAfterARow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step string
		run  run
		want invariant.Tally
	}{
		{"1 pulled", succeed, invariant.Tally{Done: 1}},
		{"3 ledger", succeed, invariant.Tally{Done: 1}},
		{"5 attempted", succeed, invariant.Tally{Done: 1}},
		{"7a committed", succeed, invariant.Tally{Done: 1}},
		{"5 attempted", poison, invariant.Tally{Dead: 1}},
		{"7c letter", poison, invariant.Tally{Dead: 1}},
		{"7c recorded", poison, invariant.Tally{Dead: 1}},
	} {
		t.Run(tt.step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": {tt.run}})
			w.publish("A")
			reached, restarted := make(chan struct{}), make(chan struct{})
			var once sync.Once
			w.start(at(tt.step, func(*worker) {
				once.Do(func() {
					close(reached)
					<-restarted
				})
			}))
			awaitClosed(t, tt.step, reached)
			w.srv.Restart(t)
			close(restarted)
			w.check(tt.want)
			if got := w.ran("A"); got != 1 {
				t.Errorf("the handler ran %d times, want once", got)
			}
			if tt.want.Dead == 1 {
				if got := w.letter("A"); got.Class != report.ClassPoison || got.Reason != "no trailer" || got.Attempts != 1 {
					t.Errorf("letter says %s %q after %d attempts, want poison after 1", got.Class, got.Reason, got.Attempts)
				}
				if got := w.events(w.keys[0], audit.Death); len(got) != 1 {
					t.Errorf("the trail has %d deaths, want 1", len(got))
				}
			}
		})
	}
}

// The server is gone while a verdict is to be written: the report stays in hand and is buried when it is back.
func TestServerGoneDuringTheBurial(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"5 attempted", "7c letter"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": {poison}})
			w.publish("A")
			reached, stopped := make(chan struct{}), make(chan struct{})
			var once sync.Once
			k := w.start(at(step, func(*worker) {
				once.Do(func() {
					close(reached)
					<-stopped
				})
			}))
			awaitClosed(t, step, reached)
			w.srv.Stop(t)
			close(stopped)
			natstest.Eventually(t, "intake to pause", k.gate.isShut)
			w.srv.Restart(t)
			w.check(invariant.Tally{Dead: 1})
			if k.gate.isShut() {
				t.Error("intake is still paused")
			}
			if got := w.ran("A"); got != 1 {
				t.Errorf("the handler ran %d times, want once", got)
			}
			if diff := cmp.Diff("no trailer", w.letter("A").Reason); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func awaitClosed(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	natstest.Eventually(t, what, func() bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	})
}
