package consumer

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A report succeeds although the process dies right after a row.
func TestDeathBeforeTheCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step     string
		script   []run
		attempts int // as the ledger counts them
	}{
		{"1 pulled", []run{succeed}, 2},
		{"2 decoded", []run{succeed}, 2},
		{"3 ledger", []run{succeed}, 2},
		{"3b no letter", []run{succeed}, 2},
		{"4 admitted", []run{succeed}, 2},
		{"5 attempted", []run{succeed, succeed}, 2},
		{"7b recorded", []run{fail, succeed}, 2},
		{"7a committed", []run{succeed}, 1},
	} {
		t.Run(tt.step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": tt.script})
			w.publish("A")
			died := w.start(dyingAt(tt.step))
			natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
			w.start()
			w.check(invariant.Tally{Done: 1})
			if got := w.ran("A"); got != len(tt.script) {
				t.Errorf("the handler ran %d times, want %d", got, len(tt.script))
			}
			if got := w.entry("A"); got.Attempts != tt.attempts || string(got.Result) != `{"pages":12}` {
				t.Errorf("ledger has %d attempts and result %s, want %d", got.Attempts, got.Result, tt.attempts)
			}
		})
	}
}

// A report dies of its first verdict although the process dies during the burial.
func TestDeathDuringTheBurial(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"7c letter", "7c recorded"} {
		for name, tt := range map[string]struct {
			script   []run
			attempts int
			class    report.Class
			code     report.Code
			reason   string
		}{
			"poison":    {[]run{poison}, 1, report.ClassPoison, report.CodeMalformedPDF, "no trailer"},
			"exhausted": {times(4, fail), 4, report.ClassExhausted, report.CodeServerError, "exhausted 4 attempts: 503"},
		} {
			t.Run(step+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, quick(), script{"A": tt.script})
				w.publish("A")
				died := w.start(dyingAt(step))
				natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
				first := w.letter("A")
				w.start()
				w.check(invariant.Tally{Dead: 1})
				if got := w.ran("A"); got != len(tt.script) {
					t.Errorf("the handler ran %d times, want %d", got, len(tt.script))
				}
				l := w.letter("A")
				if l.Class != tt.class || l.Code != tt.code || l.Reason != tt.reason || l.Attempts != tt.attempts {
					t.Errorf("letter says %s %s %q after %d attempts, want %s %s %q after %d",
						l.Class, l.Code, l.Reason, l.Attempts, tt.class, tt.code, tt.reason, tt.attempts)
				}
				if diff := cmp.Diff(first, l); diff != "" {
					t.Errorf("the letter has changed (-first +last):\n%s", diff)
				}
				if got := w.events(l.Key, audit.Death); len(got) != 1 || got[0].Hash != l.Hash {
					t.Errorf("the trail has deaths %+v, want this one", got)
				}
			})
		}
	}
}

// A report whose commit is on its way when the process dies is recorded once: that commit arrives, or the next delivery's does.
func TestDeathDuringTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {succeed, succeed}})
	w.publish("A")
	died := w.start(at("7a started", func(k *worker) { // the commit itself lets go of the report, as it is never answered
		k.nc.Close()
		runtime.Goexit()
	}))
	natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
	w.start()
	w.check(invariant.Tally{Done: 1})
	if got, ran := w.entry("A"), w.ran("A"); got.Attempts != ran || string(got.Result) != `{"pages":12}` {
		t.Errorf("the handler ran %d times, the ledger has %d attempts and result %s", ran, got.Attempts, got.Result)
	}
}

// A burial that was cut short is finished although the consumer was made anew meanwhile and counts deliveries from the start.
func TestDeathDuringTheBurialAndConsumerCreatedAnew(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"7c letter", "7c recorded"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": {poison, succeed}})
			w.publish("A")
			died := w.start(dyingAt(step))
			natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
			if err := w.js.DeleteConsumer(t.Context(), stream.Reports, stream.Consumer); err != nil {
				t.Fatal(err)
			}
			if err := Setup(t.Context(), w.js, w.cfg.Queues); err != nil {
				t.Fatal(err)
			}
			w.start()
			w.check(invariant.Tally{Dead: 1})
			if got := w.ran("A"); got != 1 {
				t.Errorf("the handler ran %d times, want 1", got)
			}
			if got := w.events(w.letter("A").Key, audit.Death); len(got) != 1 {
				t.Errorf("the trail has deaths %+v, want one", got)
			}
		})
	}
}

// A handed-back report is worked once more although the process dies between copy and ack.
func TestDeathDuringTheHandBack(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.StopGrace = 0
	cfg.Workers = 1 // with another slot the dying worker's last pull could take the copy along, which costs an attempt
	w := newWorld(t, cfg, script{"A": {untilCut, succeed}})
	w.publish("A")
	died := w.start(dyingAt("7d copied"))
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	died.stop()
	natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
	w.start()
	w.await("A", Succeeded)
	w.await("A", Duplicate)
	w.check(invariant.Tally{Done: 1})
	if got := w.ran("A"); got != 2 {
		t.Errorf("the handler ran %d times, want 2", got)
	}
	if got := w.entry("A").Attempts; got != 1 {
		t.Errorf("the ledger counts %d attempts, want 1: being stopped spends none", got)
	}
}

// A sender that got no answer repeats the publish, before the report is worked and after.
func TestPublishRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {succeed}})
	e := report.Event{SiteID: "A", SourceURI: uri("A")}
	again := func() {
		if dup, err := stream.Publish(t.Context(), w.js, e, payload("A")); err != nil || !dup {
			t.Errorf("repeated publish: duplicate %v, error %v", dup, err)
		}
	}
	w.publish("A")
	again()
	w.start()
	w.await("A", Succeeded)
	again()
	w.check(invariant.Tally{Done: 1})

	// Beyond the window, which a restart ends, the queue takes it again and the ledger knows it.
	w.srv.Restart(t)
	if _, err := stream.Publish(t.Context(), w.js, e, payload("A")); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.await("A", Duplicate)
	w.check(invariant.Tally{Done: 1})
	if got := w.ran("A"); got != 1 {
		t.Errorf("the handler ran %d times, want 1", got)
	}
}

// The requeue stream was made anew, so that a replay gets the place of the message whose letter it replays, and it keeps the time of
// publication. It is not taken for that message, which died, neither beside its letter nor when that is gone.
func TestReplayInAQueueMadeAnew(t *testing.T) {
	t.Parallel()
	for what, beside := range map[string]bool{"while the letter is there": true, "when the letter is gone": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": {poison, poison, fail, poison}})
			w.publish("A")
			k := w.start()
			w.await("A", Buried)
			w.awaitEmpty()
			by := dlq.By{Actor: "ada@office", Reason: "repaired"}
			if outcome, err := w.letters().Replay(t.Context(), w.letter("A").Sequence, by); outcome != dlq.Replayed || err != nil {
				t.Fatal(outcome, err)
			}
			natstest.Eventually(t, "the second death", func() bool { return w.saw("A", Buried) == 2 })
			w.awaitEmpty()
			if err := k.end(); err != nil {
				t.Fatal(err)
			}
			l := w.letter("A")
			w.makeAnew(stream.Requeued)
			if outcome, err := w.letters().Replay(t.Context(), l.Sequence, by); outcome != dlq.Replayed || err != nil {
				t.Fatal(outcome, err)
			}
			if m := w.stored(stream.Requeued); m.Ref != l.Source || !m.PublishedAt.Equal(l.PublishedAt) {
				t.Fatalf("the copy lies at %v, not at %v again", m.Ref, l.Source)
			}
			if beside { // the operator is slower than the worker
				if _, err := w.letters().Put(t.Context(), l, 0); err != nil {
					t.Fatal(err)
				}
			}
			w.start()
			w.awaitEmpty()
			w.stopAll()
			if got := w.letter("A"); got.Replays != 2 || got.Attempts != 2 || w.ran("A") != 4 {
				t.Errorf("after %d runs the letter has %d replays and %d attempts, want 4, 2 and 2", w.ran("A"), got.Replays, got.Attempts)
			}
		})
	}
}
