package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/reprocess"
	"github.com/guyline/guyline/stream"
)

// reprocess has a settled report worked again, and returns the revision of the reopened entry.
func (w *world) reprocess(key report.Key) uint64 {
	w.Helper()
	r, err := reprocess.New(w.queues, w.ledger, w.letters, w.trail).Reprocess(w.Context(), "*", key, reprocess.By{Actor: "ada", Reason: "corrected"})
	w.must(err)
	return r.Revision
}

// reopen turns the report's settled entry into a reopened one, which is all that a reprocess did that was cut short.
func (w *world) reopen(key report.Key) uint64 {
	w.Helper()
	e := w.entry(key)
	e.State = keyvalue.Reopened
	revision, err := w.ledger.Commit(w.Context(), e)
	w.must(err)
	return revision
}

// counting is the script in which the result says which run it is of.
func counting(_ context.Context, _ report.Event, run int) (report.Result, error) {
	return report.NewResult(map[string]int{"run": run})
}

// A settled report is worked again because an operator wants it, and settled again on the revision that was reopened.
func TestReopened(t *testing.T) {
	t.Parallel()
	w := newWorld(t, counting)
	const uri = "s3://reports/corrected.pdf"
	key := w.publish("TWR-1", uri)
	w.work()
	w.drain()
	done := w.entry(key).Revision
	r := w.reopen(key)
	if a := w.fate(key); a.Fate != fate.Waiting || a.Message != nil || a.Entry.Revision != r {
		t.Errorf("reopened, not yet requeued: fate %s, %+v", a.Fate, a)
	}
	w.requeue("TWR-1", uri, stream.Carried{PublishedAt: w.entry(key).Time, Reopened: r})
	w.drain()
	w.wantRuns(key, 2)
	e := w.entry(key)
	if e.State != keyvalue.Done || string(e.Result) != `{"run":2}` || e.Revision <= r || r <= done {
		t.Errorf("revisions done %d, reopened %d; now %s, revision %d, result %s", done, r, e.State, e.Revision, e.Result)
	}

	w.requeue("TWR-1", uri, stream.Carried{PublishedAt: e.Time, Reopened: r}) // again, of the same reopening
	w.drain()
	w.wantRuns(key, 2)
	if n := w.commits(); n != 3 {
		t.Errorf("the ledger took %d writes, want 3", n)
	}
	w.ends(invariant.Tally{Done: 1})
}

// A report is reprocessed again and again while workers run: each result takes the place of the one before, which stays in the trail.
func TestReprocessed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, counting)
	const uri = "s3://reports/corrected.pdf"
	key := w.publish("TWR-1", uri)
	w.work()
	w.work()
	w.drain()
	for run := 2; run <= 4; run++ {
		before := w.entry(key)
		r := w.reprocess(key)
		w.drain()
		w.wantRuns(key, run)
		if e := w.entry(key); e.State != keyvalue.Done || string(e.Result) != fmt.Sprintf(`{"run":%d}`, run) || e.Replaces != r || r <= before.Revision {
			t.Errorf("run %d: the ledger says %s, result %s, in place of %d; %d was reopened as %d", run, e.State, e.Result, e.Replaces, before.Revision, r)
		}
	}
	w.ends(invariant.Tally{Done: 1})
}

// A replica that lags still says done to a message that was reopened since. The message does not believe it.
func TestReopenedIgnoresTheOldEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, counting)
	const uri = "s3://reports/corrected.pdf"
	key := w.publish("TWR-1", uri)
	w.work()
	w.drain()
	old := w.entry(key)
	w.requeue("TWR-1", uri, stream.Carried{PublishedAt: old.Time, Reopened: old.Revision}) // nothing newer than done is there
	w.drain()
	w.wantRuns(key, 2)
	if e := w.entry(key); string(e.Result) != `{"run":2}` || e.Revision <= old.Revision {
		t.Errorf("the ledger has revision %d, result %s", e.Revision, e.Result)
	}
	w.ends(invariant.Tally{Done: 1})
}

// A slow worker began before the report was settled by another and reopened. Its result of the old file settles
// nothing: it works the report again.
func TestSlowWorkerMeetsAReopenedReport(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if run == 1 {
			close(begun)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return counting(ctx, e, run)
	}, func(cfg *consumer.Config) { cfg.Workers = 2 })
	const uri = "s3://reports/corrected.pdf"
	key := w.publish("TWR-1", uri)
	slow := w.work()
	<-begun
	w.raw("TWR-1", nil, body("TWR-1", uri)) // the same worker has a second slot
	w.lands(key)
	if got := string(w.entry(key).Result); got != `{"run":2}` {
		t.Errorf("the result is %s", got)
	}
	r := w.reopen(key)
	close(release)
	w.drain()
	slow.stop()
	w.wantRuns(key, 3)
	e := w.entry(key)
	if e.State != keyvalue.Done || string(e.Result) != `{"run":3}` || e.Revision <= r {
		t.Errorf("the ledger says %s, revision %d after %d, result %s", e.State, e.Revision, r, e.Result)
	}

	w.requeue("TWR-1", uri, stream.Carried{PublishedAt: e.Time, Reopened: r}) // what `reprocess` puts next has nothing to do
	w.work()
	w.drain()
	w.wantRuns(key, 3)
	w.ends(invariant.Tally{Done: 1})
}

// The reopened report dies. Its letter and every replay of it remember the reopening, so that the old result
// does not close them.
func TestReopenedReportDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if run == 2 || run == 3 {
			return nil, report.Poison(report.CodeMalformedPDF, fmt.Errorf("failure %d", run))
		}
		return counting(ctx, e, run)
	})
	const uri = "s3://reports/corrected.pdf"
	key := w.publish("TWR-1", uri)
	worker := w.work()
	w.drain()
	r := w.reprocess(key)
	l := w.dies(key, 0)
	w.wantDeath(l, death{report.ClassPoison, report.CodeMalformedPDF, "failure 2", 1, 0})
	w.replay(l, dlq.Replayed)
	l = w.dies(key, l.Sequence)
	w.wantDeath(l, death{report.ClassPoison, report.CodeMalformedPDF, "failure 3", 1, 1})
	if a := w.fate(key); a.Fate != fate.Dead || l.Reopened != r {
		t.Errorf("fate %s; the letter says reopened %d, want %d", a.Fate, l.Reopened, r)
	}
	worker.stop()
	w.replay(l, dlq.Replayed)
	copied, err := w.queues.Copy(t.Context(), l.Site, key)
	w.must(err)
	if c := copied.Carried; c.Reopened != r || c.Replays != 2 || c.ReplayOf != l.Sequence {
		t.Errorf("the copy carries %+v", c)
	}
	w.work()
	w.drain()
	w.wantRuns(key, 4)
	if e := w.entry(key); string(e.Result) != `{"run":4}` || e.Revision <= r {
		t.Errorf("the ledger has revision %d, result %s", e.Revision, e.Result)
	}
	w.ends(invariant.Tally{Done: 1})
}

// A letter from before the report was settled and reopened is still a letter: nothing has landed since.
func TestReopenedBesideAnOldLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		if run == 1 {
			return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
		}
		return report.NewResult(map[string]int{"run": run})
	})
	const uri = "s3://reports/a.pdf"
	key := w.publish("TWR-1", uri)
	worker := w.work()
	l := w.dies(key, 0)
	worker.stop()
	r, err := w.ledger.Commit(t.Context(), keyvalue.Entry{State: keyvalue.Reopened, SiteID: "TWR-1", SourceURI: uri})
	w.must(err)
	w.replay(l, dlq.Replayed) // not Recovered
	w.work()
	w.lands(key)
	w.drain()
	w.wantRuns(key, 2)
	if e := w.entry(key); e.Revision <= r {
		t.Errorf("the ledger has revision %d, reopened was %d", e.Revision, r)
	}
	natstest.Eventually(t, "nothing to be left", func() bool { return w.stored() == 0 })
	w.ends(invariant.Tally{Done: 1})
}
