package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A report lands, another dies, is replayed and lands, and the first is worked again, all with three replicas. Whoever leads a
// stream gives up the office in between: what is read through the leader is right all the same.
func TestThreeReplicas(t *testing.T) {
	t.Parallel()
	var repaired atomic.Bool
	w := newClusterWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SiteID == "TWR-9017" && !repaired.Load() {
			return nil, report.Poison("malformed-pdf", errors.New("cut short"))
		}
		return report.NewResult(map[string]int{"run": run})
	})
	first, second := w.publish("TWR-8842", "s3://reports/a.pdf"), w.publish("TWR-9017", "s3://reports/b.pdf")
	w.work()
	w.drain()
	for _, name := range []string{dlq.Stream, keyvalue.LedgerStream, audit.Stream, stream.Requeued} {
		w.cluster.StepDown(t, name)
		w.cluster.StreamLeader(t, name)
	}
	if got := w.readFate(first); got != fate.Done {
		t.Errorf("the report that landed is %s", got)
	}
	if got := w.readFate(second); got != fate.Dead {
		t.Errorf("the report that died is %s", got)
	}

	repaired.Store(true)
	l, err := w.letters.Current(t.Context(), "*", second)
	w.must(err)
	var did dlq.Outcome
	natstest.Eventually(t, "the replay", func() bool {
		did, err = w.letters.Replay(t.Context(), l.Sequence, dlq.By{Actor: "ada@office", Reason: "repaired"})
		return err == nil
	})
	if did != dlq.Replayed {
		t.Errorf("the replay says %v", did)
	}
	w.reprocess(first)
	natstest.Eventually(t, "both to land", func() bool {
		a, errA := w.ledger.LookupLeader(t.Context(), "*", first)
		b, errB := w.ledger.LookupLeader(t.Context(), "*", second)
		return errA == nil && errB == nil && a.State == keyvalue.Done && string(a.Result) == `{"run":2}` && b.State == keyvalue.Done
	})
	w.drain()
	w.ends(invariant.Tally{Done: 2})
}

// readFate asks where a report stands until a leader answers.
func (w *world) readFate(key report.Key) (f fate.Fate) {
	w.Helper()
	natstest.Eventually(w, "an answer", func() bool {
		a, err := w.finder.Of(w.Context(), "*", key)
		f = a.Fate
		return err == nil
	})
	return f
}

// Of many writers at once one wins. Replicated streams refuse the others with a code of their own, and it is a conflict too.
func TestConflictsOfReplicas(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, succeed)
	turns, err := keyvalue.OpenTurns(t.Context(), w.js)
	w.must(err)
	for what, write := range map[string]struct {
		do   func(report.Event, int) error
		lost error
	}{
		"commit": {func(e report.Event, n int) error {
			_, err := w.ledger.Commit(t.Context(), keyvalue.Entry{State: keyvalue.Done, SiteID: e.SiteID, SourceURI: e.SourceURI, Worker: fmt.Sprint(n)})
			return err
		}, keyvalue.ErrConflict},
		"letter": {func(e report.Event, n int) error {
			_, err := w.letters.Put(t.Context(), dlq.Letter{Key: e.Key(), Site: report.NewToken(e.SiteID), Worker: fmt.Sprint(n)}, 0)
			return err
		}, dlq.ErrConflict},
		"requeue": {func(e report.Event, n int) error {
			return w.queues.Requeue(t.Context(), report.NewToken(e.SiteID), e.Key(), nil, body(e.SiteID, e.SourceURI), stream.Carried{Attempts: n}, 0)
		}, stream.ErrFenced},
		"turn": {func(e report.Event, n int) error {
			_, err := turns.Renew(t.Context(), keyvalue.Turn{Name: string(e.Key()), Holder: fmt.Sprint(n)})
			return err
		}, keyvalue.ErrTaken},
	} {
		for round := range 5 {
			e := report.Event{SiteID: "TWR-" + what, SourceURI: fmt.Sprint("s3://reports/", round)}
			var won, lost atomic.Int32
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					switch err := write.do(e, n); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, write.lost):
						lost.Add(1)
					default:
						t.Errorf("%s: %v", what, err)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 || lost.Load() != 7 {
				t.Errorf("%s: %d won, %d lost; want 1 and 7", what, won.Load(), lost.Load())
			}
		}
	}
	w.ended = true // nothing was published
}

// Workers and publishers go on when the servers that lead the queue and its consumer stop, one after the other.
func TestLeadersStop(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, succeed, func(cfg *consumer.Config) { cfg.Queues.AckWait = 5 * time.Second }) // what a stopped server had in hand comes again then
	w.work()
	w.work()
	n := 0
	publish := func() {
		for range 20 {
			n++
			e := report.Event{SiteID: "TWR-1", SourceURI: fmt.Sprintf("s3://reports/%d.pdf", n)}
			natstest.Eventually(t, "the queue to take a report", func() bool {
				_, err := stream.Publish(t.Context(), w.js, e, body(e.SiteID, e.SourceURI))
				return err == nil
			})
			w.published = append(w.published, e.Key())
		}
	}
	publish()
	for _, leader := range []func() string{
		func() string { return w.cluster.ConsumerLeader(t, stream.Reports, stream.Consumer) },
		func() string { return w.cluster.StreamLeader(t, stream.Reports) },
	} {
		name := leader()
		w.cluster.Stop(t, name)
		publish()
		w.drain()
		w.cluster.Restart(t, name)
	}
	publish()
	w.drain()
	w.ends(invariant.Tally{Done: n})
}

// Setup makes three replicas of one while reports wait and letters lie, and takes none away again.
func TestSetupAddsReplicas(t *testing.T) {
	t.Parallel()
	poison := func(context.Context, report.Event, int) (report.Result, error) {
		return nil, report.Poison("malformed-pdf", errors.New("cut short"))
	}
	w := newClusterWorld(t, poison, func(cfg *consumer.Config) { cfg.Queues.Replicas = 1 })
	w.must(proof.Setup(t.Context(), w.js, 1))
	w.publish("TWR-1", "s3://reports/dead.pdf")
	w.work().drained(w)
	w.publish("TWR-1", "s3://reports/waiting.pdf")

	three := w.cfg.Queues
	three.Replicas = 3
	w.must(consumer.Setup(t.Context(), w.js, three))
	w.must(proof.Setup(t.Context(), w.js, 3))
	natstest.Eventually(t, "three replicas of everything", func() bool {
		for _, name := range everyStream() {
			s, err := w.js.Stream(t.Context(), name)
			if err != nil || s.CachedInfo().Config.Replicas != 3 || !replicated(s.CachedInfo().Cluster) {
				return false
			}
		}
		for _, name := range stream.Names() {
			c, err := w.js.Consumer(t.Context(), name, stream.Consumer)
			if err != nil || c.CachedInfo().Config.Replicas != 3 || !replicated(c.CachedInfo().Cluster) {
				return false
			}
		}
		return true
	})
	if err := consumer.Setup(t.Context(), w.js, w.cfg.Queues); err == nil {
		t.Error("setup takes replicas away")
	}
	w.cfg.Queues.Replicas = 3
	w.work().drained(w)
	w.ends(invariant.Tally{Dead: 2})
}

// drained waits until the queues are empty and stops the worker.
func (out *worker) drained(w *world) {
	w.drain()
	out.stop()
}

func everyStream() []string {
	all := append(stream.Names(), dlq.Stream, audit.Stream, proof.Stream)
	for _, name := range keyvalue.Buckets() {
		all = append(all, "KV_"+name)
	}
	return all
}

// replicated reports whether there is a leader, and two more have all that it has.
func replicated(c *jetstream.ClusterInfo) bool {
	if c == nil || c.Leader == "" || len(c.Replicas) != 2 {
		return false
	}
	return c.Replicas[0].Current && c.Replicas[1].Current
}
