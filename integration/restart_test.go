package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// The server goes down in the middle of a batch, with reports in work, and comes back with the same store.
func TestServerRestartsUnderABatch(t *testing.T) {
	t.Parallel()
	const batch = 300
	var (
		middle  = make(chan struct{}) // closed when enough work is done
		down    = make(chan struct{}) // closed when the server is gone
		mu      sync.Mutex
		begun   int
		reached = sync.OnceFunc(func() { close(middle) })
	)
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		mu.Lock()
		begun++
		wait := begun > batch/3
		mu.Unlock()
		if wait {
			reached()
			select {
			case <-down:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if e.SiteID == "BAD" {
			return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
		}
		return nil, nil
	}, func(cfg *consumer.Config) { cfg.Queues.AckWait = 5 * time.Second })
	for i := range batch {
		site := "TWR-1"
		if i%10 == 0 {
			site = "BAD"
		}
		w.publish(site, fmt.Sprint("s3://reports/", i, ".pdf"))
	}
	w.work()
	w.work()
	<-middle
	natstest.Eventually(t, "every slot to be taken", func() bool { return w.queue("REPORTS").InWork >= uint64(2*w.cfg.Workers) })
	w.srv.Stop(t)
	close(down)
	w.srv.Restart(t)
	w.drain()
	w.stop()
	if n := w.commits(); n != batch-batch/10 {
		t.Errorf("the ledger took %d writes, want %d", n, batch-batch/10)
	}
	for _, key := range w.published {
		if n := w.ran(key); n < 1 || n > 2 {
			t.Errorf("the handler ran %d times for %s, want 1, or 2 if the restart came between", n, key.Short())
		}
	}
	w.ends(invariant.Tally{Done: batch - batch/10, Dead: batch / 10})
}

// The server restarts between all the steps from a death to the replayed report's landing.
func TestReplayOverRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	w.srv.Restart(t)
	worker := w.work()
	l := w.dies(key, 0)
	worker.stop()

	w.srv.Stop(t)
	if outcome, err := w.letters.Replay(t.Context(), l.Sequence, operator); err == nil {
		t.Fatalf("replay without a server: %s", outcome)
	}
	w.srv.Restart(t)
	natstest.Eventually(t, "the replay", func() bool {
		outcome, err := w.letters.Replay(t.Context(), l.Sequence, operator)
		return err == nil && outcome == dlq.Replayed
	})
	w.srv.Restart(t)
	natstest.Eventually(t, "the copy", func() bool { return w.stored() == 1 })
	if outcome, err := w.letters.Replay(t.Context(), l.Sequence, operator); err != nil || outcome != dlq.Gone {
		t.Errorf("replay once more: %s, %v; want %s", outcome, err, dlq.Gone)
	}
	w.work()
	w.drain()
	w.wantRuns(key, 2)
	if n := w.commits(); n != 1 {
		t.Errorf("the ledger took %d writes, want 1", n)
	}
	w.srv.Restart(t)
	natstest.Eventually(t, "the server", func() bool { return w.stored() == 0 })
	if a := w.fate(key); a.Fate != "done" {
		t.Errorf("fate %s after a restart, want done", a.Fate)
	}
	w.ends(invariant.Tally{Done: 1})
}

// A restart makes the server forget the ids of what was worked; the ledger has not forgotten.
func TestPublishedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	w.work()
	w.drain()
	w.srv.Restart(t)
	natstest.Eventually(t, "the server", func() bool { return w.stored() == 0 })
	w.publish("TWR-1", "s3://reports/a.pdf") // no duplicate to the queue
	w.drain()
	w.stop()
	w.wantRuns(key, 1)
	if n := w.commits(); n != 1 {
		t.Errorf("the ledger took %d writes, want 1", n)
	}
	w.ends(invariant.Tally{Done: 1})
}
