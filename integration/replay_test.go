package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// repaired is the script in which a report is poison at its first run and done at every later one.
func repaired(_ context.Context, _ report.Event, run int) (report.Result, error) {
	if run == 1 {
		return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
	}
	return report.NewResult(map[string]int{"run": run})
}

// The duplicate window of two minutes has not passed, and the replay is worked all the same.
func TestReplayInsideTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	w.work()
	l := w.dies(key, 0)
	w.replay(l, dlq.Replayed)
	w.lands(key)
	w.drain()
	w.noLetter(key)
	w.wantRuns(key, 2)
	if got := w.events(key, audit.Replay); len(got) != 1 || got[0].Actor != operator.Actor || got[0].Reason != operator.Reason || got[0].Letter != l.Sequence {
		t.Errorf("the trail has %+v, want one replay", got)
	}
	w.replay(l, dlq.Gone) // once more
	w.drain()
	w.wantRuns(key, 2)
	w.ends(invariant.Tally{Done: 1})
}

// Nobody works when the letter is replayed; the budget of attempts is fresh when somebody does.
func TestReplayWhileNobodyWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		if run < 8 { // one report exhausted, then exhausted but for the last attempt
			return nil, report.Transient(report.CodeTimeout, fmt.Errorf("run %d timed out", run))
		}
		return nil, nil
	})
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	worker := w.work()
	first := w.dies(key, 0)
	worker.stop()
	w.replay(first, dlq.Replayed)
	copied, err := w.queues.Copy(t.Context(), first.Site, key)
	w.must(err)
	if c := copied.Carried; c.Replays != 1 || c.ReplayOf != first.Sequence || c.Attempts != 0 || c.Verdict != nil ||
		!c.PublishedAt.Equal(first.PublishedAt) || !c.FirstFailedAt.Equal(first.FirstFailedAt) {
		t.Errorf("the copy carries %+v", c)
	}
	if a := w.fate(key); a.Fate != "waiting" || string(copied.Body) != string(first.Body) {
		t.Errorf("fate %s; the copy's payload is %s", a.Fate, copied.Body)
	}
	w.work()
	w.drain()
	w.wantRuns(key, 8)
	if e := w.entry(key); e.Attempts != 4 {
		t.Errorf("the ledger says %d attempts, want 4", e.Attempts)
	}
	w.ends(invariant.Tally{Done: 1})
}

// The replayed report fails faster than the replay can delete the old letter: the new letter stays.
func TestReplayThatFailsAgain(t *testing.T) {
	t.Parallel()
	const times = 40
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		return nil, report.Poison(report.CodeMalformedPDF, fmt.Errorf("failure %d", run))
	})
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	w.work()
	w.work()
	l := w.dies(key, 0)
	first := l.FirstFailedAt
	for n := 1; n <= times; n++ {
		w.replay(l, dlq.Replayed)
		l = w.dies(key, l.Sequence)
		if want := fmt.Sprintf("failure %d", n+1); l.Replays != n || l.Reason != want || !l.FirstFailedAt.Equal(first) {
			t.Fatalf("replay %d: the letter says %d replays, %q, first failed at %v", n, l.Replays, l.Reason, l.FirstFailedAt)
		}
	}
	w.wantDeath(l, death{report.ClassPoison, report.CodeMalformedPDF, fmt.Sprintf("failure %d", times+1), 1, times})
	w.wantRuns(key, times+1)
	if got := len(w.events(key, audit.Replay)); got != times {
		t.Errorf("the trail has %d replays, want %d", got, times)
	}
	w.ends(invariant.Tally{Dead: 1})
}

// The report was published again and has landed before its letter was replayed: only the letter is closed.
func TestReplayOfWhatHasLanded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired, func(cfg *consumer.Config) { cfg.Sweep = time.Hour }) // which would close it too
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	w.work()
	l := w.dies(key, 0)
	w.raw("TWR-1", nil, body("TWR-1", "s3://reports/a.pdf"))
	w.drain()
	if a := w.fate(key); a.Fate != "done" {
		t.Errorf("fate %s with a letter and an entry, want done", a.Fate)
	}
	w.replay(l, dlq.Recovered)
	if n := w.stored(); n != 0 {
		t.Errorf("%d messages are queued, want none", n)
	}
	w.noLetter(key)
	w.wantRuns(key, 2)
	if got := w.events(key, audit.Recovered); len(got) != 1 || got[0].Actor != operator.Actor {
		t.Errorf("the trail has %+v, want one recovered", got)
	}
	if got := w.events(key, audit.Replay); len(got) != 0 {
		t.Errorf("the trail has %d replays, want none", len(got))
	}
	w.ends(invariant.Tally{Done: 1})
}

// Another copy of the report is queued, such as one that a stopping worker handed back: the letter stays.
func TestReplayBesideAnotherCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	worker := w.work()
	l := w.dies(key, 0)
	worker.stop()
	w.must(w.queues.Requeue(t.Context(), l.Site, key, nil, l.Body, stream.Carried{PublishedAt: time.Now()}, 0))
	w.replay(l, dlq.Busy)
	if got := w.letter(key); got.Sequence != l.Sequence {
		t.Errorf("the letter is %d, want %d", got.Sequence, l.Sequence)
	}
	w.work()
	w.drain()
	w.noLetter(key) // the sweep has closed it
	w.wantRuns(key, 2)
	w.ends(invariant.Tally{Done: 1})
}
