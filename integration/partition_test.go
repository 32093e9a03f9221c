package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// soonLost makes the server give a report to somebody else soon after its worker has fallen silent.
func soonLost(cfg *consumer.Config) { cfg.Queues.AckWait, cfg.Workers = 4*time.Second, 2 }

// lost has one worker fall silent over a report until another has it too, and returns how to let the first go on: its
// handler returns err, or a result of its own, when its line is mended.
func lost(t *testing.T, err error, second func() (report.Result, error)) (w *world, key report.Key, goOn func()) {
	t.Helper()
	release := make(chan struct{})
	w = newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if run > 1 {
			return second()
		}
		select {
		case <-release:
			return report.Result(`{"by":"the silent one"}`), err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, soonLost)
	key = w.publish("TWR-1", "s3://reports/a.pdf")
	silent := w.work()
	natstest.Eventually(t, "the work to begin", func() bool { return w.ran(key) == 1 })
	silent.line.cut()
	w.work()
	natstest.Eventually(t, "another worker to have it", func() bool { return w.ran(key) == 2 && w.stored() == 0 })
	return w, key, func() {
		t.Helper()
		silent.line.mend()
		natstest.Eventually(t, "the silent worker to be back", silent.nc.IsConnected)
		close(release)
		natstest.Eventually(t, "both deliveries to be settled", func() bool { return len(w.settled(key)) == w.ran(key) })
	}
}

// A worker falls silent, another does its work, and the first comes back with a result: it is dropped.
func TestSilentWorkerSucceedsLate(t *testing.T) {
	t.Parallel()
	w, key, goOn := lost(t, nil, func() (report.Result, error) { return report.Result(`{"by":"the other"}`), nil })
	goOn()
	if diff := cmp.Diff([]consumer.Kind{consumer.Succeeded, consumer.Duplicate}, w.settled(key)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if e := w.entry(key); string(e.Result) != `{"by":"the other"}` || e.Worker != "worker-2" || w.commits() != 1 {
		t.Errorf("the ledger says %s by %s, after %d writes", e.Result, e.Worker, w.commits())
	}
	w.wantRuns(key, 2)
	w.ends(invariant.Tally{Done: 1})
}

// The same, but the other worker has buried the report: the late result counts, and the letter is closed.
func TestSilentWorkerSucceedsAfterDeath(t *testing.T) {
	t.Parallel()
	w, key, goOn := lost(t, nil, func() (report.Result, error) {
		return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
	})
	w.letter(key)
	goOn()
	w.lands(key)
	w.noLetter(key)
	w.ends(invariant.Tally{Done: 1})
}

// The late failure of a worker that has lost the report changes nothing: what was dead is dead with the same reason.
func TestSilentWorkerFailsAfterDeath(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]error{
		"transient": report.Transient(report.CodeTimeout, errors.New("too late")),
		"poison":    report.Poison(report.CodeForbidden, errors.New("too late")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, key, goOn := lost(t, late, func() (report.Result, error) {
				return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
			})
			before := w.letter(key)
			goOn()
			w.stop() // which flushes what was written to the trail without waiting
			if diff := cmp.Diff(before, w.letter(key)); diff != "" {
				t.Errorf("the letter has changed:\n%s", diff)
			}
			w.wantRuns(key, 2)
			w.ends(invariant.Tally{Dead: 1})
		})
	}
}

// The report was given up before its silent worker came back with a failure. It stays discarded.
func TestSilentWorkerFailsAfterDiscard(t *testing.T) {
	t.Parallel()
	w, key, goOn := lost(t, report.Transient(report.CodeTimeout, errors.New("too late")), func() (report.Result, error) {
		return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
	})
	if outcome, err := w.letters.Discard(t.Context(), w.letter(key).Sequence, operator); err != nil || outcome != dlq.Discarded {
		t.Fatalf("discard: %s, %v", outcome, err)
	}
	goOn()
	w.stop() // which flushes what was written to the trail without waiting
	if got := w.events(key, audit.Discard); len(got) != 1 {
		t.Errorf("the trail has %d discards, want 1", len(got))
	}
	if a := w.fate(key); a.Fate != "discarded" {
		t.Errorf("fate %s, want discarded", a.Fate)
	}
	w.wantRuns(key, 2)
	w.ends(invariant.Tally{Discarded: 1})
}

// The report was given up, or replayed, before its silent worker came back with a verdict of its own on the old message.
// Whatever is made of the late verdict, the report has one fate, and a letter that verifies.
func TestSilentWorkerBuriesAfterAnAct(t *testing.T) {
	t.Parallel()
	for _, act := range []string{"discard", "replay"} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			runs := 0
			w, key, goOn := lost(t, report.Poison(report.CodeForbidden, errors.New("too late")), func() (report.Result, error) {
				runs++
				return nil, report.Poison(report.CodeNotFound, fmt.Errorf("failure %d", runs))
			})
			l := w.letter(key)
			if act == "replay" {
				w.replay(l, dlq.Replayed)
				w.dies(key, l.Sequence)
			} else if outcome, err := w.letters.Discard(t.Context(), l.Sequence, operator); err != nil || outcome != dlq.Discarded {
				t.Fatalf("discard: %s, %v", outcome, err)
			}
			goOn()
			w.drain()
			w.stop()
			switch a := w.fate(key); {
			case a.Fate == "dead" && a.Letter.Replays == w.ran(key)-2:
				w.ends(invariant.Tally{Dead: 1})
			case a.Fate == "discarded" && act == "discard":
				w.ends(invariant.Tally{Discarded: 1})
			default:
				t.Errorf("fate %s, letter %+v", a.Fate, a.Letter)
			}
		})
	}
}

// The server's answers are held up for some seconds in the middle of a batch, by an election, a slow disk or a busy machine. What
// it gave out meanwhile is worked when it arrives: nobody else had it, and no attempt is spent.
func TestServerPauses(t *testing.T) {
	t.Parallel()
	const batch = 100
	middle := make(chan struct{})
	w := newWorld(t, func(_ context.Context, e report.Event, _ int) (report.Result, error) {
		if e.SourceURI == fmt.Sprint(batch/2) {
			close(middle)
		}
		return nil, nil
	}, func(cfg *consumer.Config) { cfg.Queues.AckWait, cfg.Workers = 30*time.Second, 16 })
	for i := range batch {
		w.publish("TWR-1", fmt.Sprint(i))
	}
	worker := w.work()
	<-middle
	worker.line.freeze(4 * time.Second)
	w.drain()
	w.stop()
	for _, key := range w.published {
		w.wantRuns(key, 1)
		if e := w.entry(key); e.Attempts != 1 {
			t.Errorf("%s was done at attempt %d, and nobody had it before", e.SourceURI, e.Attempts)
		}
	}
	w.ends(invariant.Tally{Done: batch})
}
