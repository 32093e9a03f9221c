package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// While one queue has a backlog, the other, which is empty, is only looked at: a pull that waits there would keep a slot, here the
// only free one.
func TestEmptyQueueKeepsNoSlot(t *testing.T) {
	t.Parallel()
	for busy, empty := range map[string]string{stream.Reports: stream.Requeued, stream.Requeued: stream.Reports} {
		t.Run(busy, func(t *testing.T) {
			t.Parallel()
			const reports = 60
			cfg := quick()
			cfg.Workers = 2
			cfg.Queues.AckWait = time.Minute // of which a pull waits a quarter, but at most a second
			var (
				release           = make(chan struct{})
				waiting, from, to atomic.Int64 // pulls of the empty queue that wait: all, and before the first and last report looked at
			)
			count := func(n *atomic.Int64) run {
				return func(ctx context.Context) (report.Result, error) {
					n.Store(waiting.Load())
					return succeed(ctx)
				}
			}
			w := newWorld(t, cfg, script{
				"HELD": {func(ctx context.Context) (report.Result, error) {
					<-release
					return succeed(ctx)
				}},
				"R10": {count(&from)}, fmt.Sprint("R", reports-1): {count(&to)},
			})
			nc := w.srv.Conn(t)
			if _, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT."+empty+".workers", func(m *nats.Msg) {
				var ask struct{ Expires time.Duration }
				if err := json.Unmarshal(m.Data, &ask); err != nil || ask.Expires == longestPull {
					waiting.Add(1)
				}
			}); err != nil {
				t.Fatal(err)
			}
			w.publish("HELD")
			for i := range reports {
				site := fmt.Sprint("R", i)
				if w.script[site] == nil {
					w.script[site] = []run{succeed}
				}
				if busy == stream.Reports {
					w.publish(site)
				} else {
					w.requeue(site, stream.Carried{})
				}
			}
			w.start()
			w.await(fmt.Sprint("R", reports-1), Succeeded)
			close(release)
			natstest.Eventually(t, "the idle worker to wait there", func() bool { return waiting.Load() > 0 })
			w.check(invariant.Tally{Done: reports + 1})
			if n := to.Load() - from.Load(); n > 0 {
				t.Errorf("%d pulls waited at the empty queue during the backlog, want none", n)
			}
		})
	}
}

// Neither queue waits behind a backlog of the other, even with one slot.
func TestQueuesAlternate(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1
	w := newWorld(t, cfg, script{})
	var order []string
	for i := range 20 {
		for _, site := range []string{fmt.Sprint("P", i), fmt.Sprint("Q", i)} {
			w.script[site] = []run{func(ctx context.Context) (report.Result, error) {
				order = append(order, site[:1]) // one slot: never two at once
				return succeed(ctx)
			}}
		}
		w.publish(fmt.Sprint("P", i))
		w.requeue(fmt.Sprint("Q", i), stream.Carried{})
	}
	w.start()
	w.check(invariant.Tally{Done: 40})
	if got := strings.Join(order, ""); strings.Contains(got, "PPPPP") || strings.Contains(got, "QQQQQ") {
		t.Errorf("the queues were worked in the order %s, want them to alternate", got)
	}
}
