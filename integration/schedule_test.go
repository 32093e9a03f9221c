package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// Two workers share the schedule's turns, of which each charges one letter of a source that is down for good. Turns that pass while no
// worker runs are not made up for, and letters of classes that are not named stay as they are.
func TestSchedule(t *testing.T) {
	t.Parallel()
	const letters, every = 20, time.Second
	w := newWorld(t, func(_ context.Context, e report.Event, _ int) (report.Result, error) {
		if e.SiteID == "POISON" {
			return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
		}
		return nil, report.Transient(report.CodeServerError, errors.New("503"))
	}, func(cfg *consumer.Config) {
		cfg.Queues.MaxAttempts = 1
	})
	first := w.work()
	keys := w.die(letters)
	poison := w.publish("POISON", "https://portal.example/q2.pdf")
	w.drain()
	first.stop()

	turns := w.watchTurns("replay")
	schedule := func(cfg *consumer.Config) { cfg.ReplayEvery = every }
	two := []*worker{w.work(schedule), w.work(schedule)}
	natstest.Eventually(t, "three turns", seldom(func() bool { return w.allReplays() >= 3 }))
	for _, worker := range two {
		worker.stop()
	}
	before := w.allReplays()
	natstest.Eventually(t, "three turns to pass", seldom(func() bool { return w.turn("replay").Age > 3*every }))
	if n := w.allReplays(); n != before {
		t.Errorf("%d letters were replayed with no worker, want none", n-before)
	}
	w.work(schedule)
	w.work(schedule)
	natstest.Eventually(t, "two more turns", seldom(func() bool { return w.allReplays() >= before+2 }))
	w.stop()
	w.work() // on what the stop may have handed back
	w.drain()

	var last time.Time
	taken := turns()
	for _, at := range taken {
		if apart := at.Sub(last); apart < every {
			t.Errorf("two turns are %v apart, want %v at least", apart, every)
		}
		last = at
	}
	replays := w.allReplays()
	if len(taken) < 5 || replays > len(taken) {
		t.Errorf("%d turns were taken and %d letters replayed, want five turns or more and at most one letter for each", len(taken), replays)
	}
	charged := 0
	for _, key := range keys {
		l := w.letter(key)
		w.wantReplays(key, l.Replays, "on schedule")
		if charged += l.Replays; l.Replays > 1 {
			t.Errorf("%s was replayed %d times within seconds, want at most once", key.Short(), l.Replays)
		}
	}
	if charged != replays {
		t.Errorf("%d letters were charged and %d replayed", charged, replays)
	}
	w.wantReplays(poison, 0, "")
	w.ends(invariant.Tally{Dead: letters + 1})
}

// While its source is down the schedule leaves a report the last replay that it may have. When the source is seen to answer, that one is
// used, with no one typing anything.
func TestScheduleLeavesTheLastReplay(t *testing.T) {
	t.Parallel()
	var source portal
	w := newWorld(t, source.script, func(cfg *consumer.Config) {
		cfg.Queues.MaxAttempts, cfg.ReplayMax, cfg.ReplayEvery = 1, 1, time.Second
	})
	w.work()
	key := w.die(1)[0]
	for range 3 {
		before := w.turn("replay").Revision
		natstest.Eventually(t, "another turn", seldom(func() bool { return w.turn("replay").Revision > before }))
	}
	if l := w.letter(key); l.Replays != 0 || w.letters.Quarantined(l) {
		t.Errorf("replayed %d times while its source is down, want never", l.Replays)
	}
	source.up.Store(true)
	fresh := w.publish("FRESH", "https://portal.example/q3.pdf")
	w.lands(fresh)
	w.lands(key)
	w.drain()
	if n := w.allReplays(); n != 1 {
		t.Errorf("%d replays, want one", n)
	}
	w.ends(invariant.Tally{Done: 2})
}

// watchTurns returns a function that tells when turns of a name were taken, by the server's clock.
func (w *world) watchTurns(name string) func() []time.Time {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), "reports_turns")
	w.must(err)
	watch, err := kv.Watch(w.Context(), name)
	w.must(err)
	w.Cleanup(func() { _ = watch.Stop() })
	return func() (taken []time.Time) {
		w.Helper()
		last, err := kv.Get(w.Context(), name)
		w.must(err)
		for e := range watch.Updates() {
			if e == nil {
				continue
			}
			if taken = append(taken, e.Created()); e.Revision() == last.Revision() {
				return taken
			}
		}
		return taken
	}
}

// What the clocks of the workers that buried the reports say does not count: a report that was replayed a moment ago rests, whether its
// letter says that it died days ago or will in years. One that was never replayed does not.
func TestClocksOfTheDead(t *testing.T) {
	t.Parallel()
	var source portal
	w := newWorld(t, source.script, func(cfg *consumer.Config) { cfg.Queues.MaxAttempts = 1 })
	first := w.work()
	keys := w.die(4)
	first.stop()
	for i, change := range []func(*dlq.Letter){
		func(l *dlq.Letter) { l.Replays, l.FailedAt = 1, l.FailedAt.Add(-72*time.Hour) },
		func(l *dlq.Letter) { l.Replays, l.FailedAt = 1, l.FailedAt.AddDate(70, 0, 0) },
		func(l *dlq.Letter) { l.FailedAt = l.FailedAt.Add(-72 * time.Hour) },
		func(l *dlq.Letter) { l.FailedAt = l.FailedAt.AddDate(70, 0, 0) },
	} {
		l := w.letter(keys[i])
		change(&l)
		_, err := w.letters.Put(t.Context(), l, l.Sequence)
		w.must(err)
	}
	source.up.Store(true)
	w.work(func(cfg *consumer.Config) { cfg.ReplayEvery = time.Second })
	w.lands(keys[2])
	w.lands(keys[3])
	for range 2 { // and two turns later
		before := w.turn("replay").Revision
		natstest.Eventually(t, "another turn", seldom(func() bool { return w.turn("replay").Revision > before }))
	}
	w.drain()
	w.wantReplays(keys[0], 0, "")
	w.wantReplays(keys[1], 0, "")
	for _, key := range keys[2:] { // on schedule, or because the first of them has landed and the portal answers
		if n := len(w.events(key, audit.Replay)); n != 1 {
			t.Errorf("%s was replayed %d times, want once", key.Short(), n)
		}
	}
	w.ends(invariant.Tally{Done: 2, Dead: 2})
}
