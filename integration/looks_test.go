package integration_test

import (
	"errors"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// What tests look at: each look fails the test if there is nothing to see.

// letter is the report's dead letter.
func (w *world) letter(key report.Key) dlq.Letter {
	w.Helper()
	l, err := w.letters.Current(w.Context(), "*", key)
	if err != nil {
		w.Fatalf("letter of %s: %v", key.Short(), err)
	}
	return l
}

// dies waits until the report has a letter that is not the one with this sequence, and until its burial is over.
func (w *world) dies(key report.Key, but uint64) dlq.Letter {
	w.Helper()
	var l dlq.Letter
	natstest.Eventually(w, "the death of "+key.Short(), seldom(func() bool {
		var err error
		l, err = w.letters.Current(w.Context(), "*", key)
		return err == nil && l.Sequence != but && w.stored() == 0
	}))
	return l
}

// noLetter waits until the report has none.
func (w *world) noLetter(key report.Key) {
	w.Helper()
	natstest.Eventually(w, "the letter of "+key.Short()+" to be closed", func() bool {
		_, err := w.letters.Current(w.Context(), "*", key)
		return errors.Is(err, dlq.ErrNotFound)
	})
}

// entry is the report's entry in the ledger.
func (w *world) entry(key report.Key) keyvalue.Entry {
	w.Helper()
	e, err := w.ledger.LookupLeader(w.Context(), "*", key)
	if err != nil {
		w.Fatalf("ledger entry of %s: %v", key.Short(), err)
	}
	return e
}

// lands waits until the report is done.
func (w *world) lands(key report.Key) {
	w.Helper()
	natstest.Eventually(w, key.Short()+" to be done", seldom(func() bool {
		e, err := w.ledger.LookupLeader(w.Context(), "*", key)
		return err == nil && e.State == keyvalue.Done
	}))
}

// commits is how many writes the ledger has ever taken.
func (w *world) commits() uint64 {
	w.Helper()
	s, err := w.js.Stream(w.Context(), "KV_reports_ledger")
	w.must(err)
	return s.CachedInfo().State.LastSeq
}

// fate is where the report stands.
func (w *world) fate(key report.Key) fate.Answer {
	w.Helper()
	a, err := w.finder.Of(w.Context(), "*", key)
	w.must(err)
	return a
}

// events is the report's audit events of one kind, oldest first.
func (w *world) events(key report.Key, kind audit.Kind) (found []audit.Event) {
	w.Helper()
	for e, err := range w.trail.Log(w.Context(), "*", key) {
		w.must(err)
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// wantEvents checks the kinds of the report's audit events.
func (w *world) wantEvents(key report.Key, want ...audit.Kind) {
	w.Helper()
	var got []audit.Kind
	for e, err := range w.trail.Log(w.Context(), "*", key) {
		w.must(err)
		got = append(got, e.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("audit events of %s (-want +got):\n%s", key.Short(), diff)
	}
}

// queue is what one queue holds.
func (w *world) queue(name string) stream.State {
	w.Helper()
	s, err := w.queues.State(w.Context(), name)
	w.must(err)
	return s
}

// ran is how often the handler has run for the report.
func (w *world) ran(key report.Key) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[key]
}

func (w *world) wantRuns(key report.Key, want int) {
	w.Helper()
	if got := w.ran(key); got != want {
		w.Errorf("the handler ran %d times for %s, want %d", got, key.Short(), want)
	}
}

// settled is what became of the report's deliveries, in order.
func (w *world) settled(key report.Key) []consumer.Kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.outcomes[key])
}

// death is what a letter says of why and how a report died.
type death struct {
	Class    report.Class
	Code     report.Code
	Reason   string
	Attempts int
	Replays  int
}

// wantDeath checks a letter, also that its audit hash seals its reason and that the trail has recorded the same.
func (w *world) wantDeath(l dlq.Letter, want death) {
	w.Helper()
	if diff := cmp.Diff(want, death{l.Class, l.Code, l.Reason, l.Attempts, l.Replays}); diff != "" {
		w.Errorf("letter of %s (-want +got):\n%s", l.Key.Short(), diff)
	}
	if want := report.AuditHash(l.Key, l.Reason); l.Hash != want {
		w.Errorf("letter of %s: hash %s, want %s", l.Key.Short(), l.Hash, want)
	}
	if l.FirstFailedAt.IsZero() || l.FirstFailedAt.After(l.FailedAt) || l.FailedAt.After(time.Now()) {
		w.Errorf("letter of %s: first failed at %v, failed at %v", l.Key.Short(), l.FirstFailedAt, l.FailedAt)
	}
	deaths := w.events(l.Key, audit.Death)
	if len(deaths) == 0 || deaths[len(deaths)-1].Hash != l.Hash {
		w.Errorf("letter of %s: the trail has recorded %+v", l.Key.Short(), deaths)
	}
}

// replay sends the report's letter back and checks what came of it.
func (w *world) replay(l dlq.Letter, want dlq.Outcome) {
	w.Helper()
	by := operator
	by.Force = true // however often
	got, err := w.letters.Replay(w.Context(), l.Sequence, by)
	if err != nil || got != want {
		w.Fatalf("replay of %s: %s, %v; want %s", l.Key.Short(), got, err, want)
	}
}

// operator is who acts in these tests.
var operator = dlq.By{Actor: "ada@control", Reason: "the source was repaired"}
