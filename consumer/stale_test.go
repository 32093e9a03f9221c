package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// stale makes a worker believe, from a row on, that its last heartbeat for everything in hand is long ago.
func stale(step string) func(*worker) {
	return at(step, func(k *worker) {
		for _, d := range k.hand.all() {
			d.mu.Lock()
			d.beatAt = time.Now().Add(-time.Hour)
			d.mu.Unlock()
		}
	})
}

// A worker that has lost a message sends no heartbeat, no NAK and no copy for it: they would hit the new owner. The report
// then takes its way as if the worker had died.
func TestStaleWorkerSaysNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		run  func(context.Context, *worker) (report.Result, error)
		kind Kind
	}{
		"retry": {func(ctx context.Context, _ *worker) (report.Result, error) { return fail(ctx) }, Retried},
		"stop": {func(ctx context.Context, k *worker) (report.Result, error) {
			k.stop()
			k.Cut()
			return untilCut(ctx)
		}, LeftAlone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Queues.AckWait = 10 * time.Second // longer than this test takes to look
			w := newWorld(t, cfg, script{"A": {nil, succeed}})
			said := w.listen()
			k := w.open()
			stale("3 ledger")(k)
			w.script["A"][0] = func(ctx context.Context) (report.Result, error) {
				for _, d := range k.hand.all() {
					d.heartbeat() // as the time for it comes
				}
				return tt.run(ctx, k)
			}
			w.publish("A")
			m := w.stored(stream.Reports)
			w.run(k)
			w.await("A", tt.kind)
			if err := k.end(); err != nil {
				t.Errorf("Run: %v", err)
			}
			if diff := cmp.Diff([]string{}, said.all()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			if _, err := w.queues().Copy(t.Context(), m.Site, m.Key); !errors.Is(err, jsapi.ErrNotFound) {
				t.Errorf("look for a copy: %v, want none", err)
			}
			w.start()
			w.check(invariant.Tally{Done: 1})
			if got := w.entry("A").Attempts; got != 2 {
				t.Errorf("the ledger counts %d attempts, want 2", got)
			}
		})
	}
}

// A worker that has lost a message may still commit and bury, and let the message go.
func TestStaleWorkerSettles(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = time.Hour
	w := newWorld(t, cfg, script{"A": {succeed}, "P": {poison}})
	said := w.listen()
	w.publish("A", "P")
	w.start(stale("3 ledger"))
	w.check(invariant.Tally{Done: 1, Dead: 1})
	if got := said.all(); len(got) != 2 || said.count("+ACK") != 1 || said.count("+TERM no trailer") != 1 {
		t.Errorf("the worker said %q, want one +ACK and one +TERM", got)
	}
}

// A worker that is cut off from the server for longer than AckWait knows that it has lost what it has, also if its connection
// keeps messages for later.
func TestCutOffWorkerKnows(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]nats.Option{"plain": nil, "buffering": {nats.ReconnectBufSize(8 << 20)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			back := make(chan struct{})
			w := newWorld(t, quick(), script{"A": {func(ctx context.Context) (report.Result, error) {
				<-back
				return fail(ctx)
			}, succeed}})
			w.publish("A")
			k := w.open(opts...)
			w.run(k)
			natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
			w.srv.Stop(t)
			natstest.Eventually(t, "the worker to know that it has lost the report", func() bool {
				in := k.hand.all()
				return len(in) == 1 && in[0].lost()
			})
			w.srv.Restart(t)
			said := w.listen()
			close(back)
			w.check(invariant.Tally{Done: 1})
			if got := said.count("-NAK"); got > 0 {
				t.Errorf("the worker said -NAK for what it had lost")
			}
		})
	}
}

// A slow worker commits after another has received the same report: one commit counts, the other's result is dropped.
func TestSlowWorkerAndAnother(t *testing.T) {
	t.Parallel()
	for name, slowFirst := range map[string]bool{"slow one first": true, "other first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				release = [2]chan struct{}{make(chan struct{}), make(chan struct{})}
				results = [2]report.Result{report.Result(`{"by":"slow"}`), report.Result(`{"by":"other"}`)}
				runs    []run
			)
			for i := range 2 {
				runs = append(runs, func(context.Context) (report.Result, error) {
					<-release[i]
					return results[i], nil
				})
			}
			cfg := quick()
			cfg.Queues.AckWait = 6 * time.Second // time enough for what is held
			w := newWorld(t, cfg, script{"A": runs})
			w.publish("A")
			w.start(stale("3 ledger"), func(k *worker) {
				k.slots, k.cfg.Workers = newSlots(1), 1 // it does not take the next delivery, too
			})
			natstest.Eventually(t, "the slow worker to have it", func() bool { return w.ran("A") == 1 })
			w.start()
			natstest.Eventually(t, "another to have it too", func() bool { return w.ran("A") == 2 })
			first, second := 0, 1
			if !slowFirst {
				first, second = 1, 0
			}
			close(release[first])
			w.await("A", Succeeded)
			close(release[second])
			w.await("A", Duplicate)
			w.check(invariant.Tally{Done: 1})
			if got := w.entry("A").Result; string(got) != string(results[first]) {
				t.Errorf("the ledger has %s, want %s", got, results[first])
			}
			if got := w.saw("A", Succeeded); got != 1 {
				t.Errorf("succeeded %d times, want once", got)
			}
		})
	}
}

// A report that an operator reopens while it is worked is worked again, and the older result does not count.
func TestReopenedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	ledger := w.ledger()
	w.script["A"] = []run{
		func(context.Context) (report.Result, error) {
			e := keyvalue.Entry{State: keyvalue.Reopened, SiteID: "A", SourceURI: uri("A"), Worker: "operator"}
			if _, err := ledger.Commit(context.Background(), e); err != nil {
				t.Error(err)
			}
			return report.Result(`{"of":"the old file"}`), nil
		},
		succeed,
	}
	w.publish("A")
	w.start()
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A").Result; string(got) != `{"pages":12}` {
		t.Errorf("the ledger has %s, want the second result", got)
	}
	if got := w.saw("A", Succeeded); got != 1 {
		t.Errorf("succeeded %d times, want once", got)
	}
}

// A ledger that forgets the reopened entry while its report is worked takes the result all the same.
func TestReopenedAndForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steady(), script{})
	w.commit("A")
	reopened := w.entry("A")
	reopened.State, reopened.Result = keyvalue.Reopened, nil
	ledger := w.ledger()
	revision, err := ledger.Commit(t.Context(), reopened)
	if err != nil {
		t.Fatal(err)
	}
	w.script["A"] = []run{func(ctx context.Context) (report.Result, error) {
		err := keyvalue.KeepLedger(ctx, w.js, 100*time.Millisecond, true)
		natstest.Eventually(t, "the entry to be forgotten", func() bool {
			n, err := ledger.Len(ctx)
			return err == nil && n == 0
		})
		return report.Result(`{"pages":12}`), errors.Join(err, keyvalue.KeepLedger(ctx, w.js, 0, false))
	}}
	w.requeue("A", stream.Carried{Reopened: revision})
	w.start()
	w.check(invariant.Tally{Done: 1})
	if got := w.saw("A", Succeeded); got != 1 {
		t.Errorf("succeeded %d times, want once", got)
	}
}

// A message that carries the revision of a reopening ignores what was done before it, once.
func TestReopenedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {succeed}})
	w.commit("A")
	old := w.entry("A")
	reopened := old
	reopened.State, reopened.Result = keyvalue.Reopened, nil
	revision, err := w.ledger().Commit(t.Context(), reopened)
	if err != nil {
		t.Fatal(err)
	}
	w.requeue("A", stream.Carried{Reopened: revision})
	w.start()
	w.await("A", Succeeded)
	w.awaitEmpty()
	w.requeue("A", stream.Carried{Reopened: revision}) // put twice
	w.await("A", Duplicate)
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A"); got.Revision <= revision || string(got.Result) != `{"pages":12}` {
		t.Errorf("the ledger has revision %d with %s, want one after %d with the new result", got.Revision, got.Result, revision)
	}
}
