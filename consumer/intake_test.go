package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
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
				release  = make(chan struct{})
				asked    = make(chan *nats.Msg, 1<<12) // pulls of the empty queue
				mu       sync.Mutex
				waiting  int // of them
				from, to int // and before the first and last report looked at
				nc       *nats.Conn
			)
			waits := func() int {
				mu.Lock()
				defer mu.Unlock()
				if err := nc.Flush(); err != nil { // what the server has taken before is in the channel then
					t.Error(err)
				}
				for {
					select {
					case m := <-asked:
						var ask struct{ Expires time.Duration }
						if err := json.Unmarshal(m.Data, &ask); err != nil || ask.Expires == longestPull {
							waiting++
						}
					default:
						return waiting
					}
				}
			}
			count := func(n *int) run {
				return func(ctx context.Context) (report.Result, error) {
					*n = waits()
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
			nc = w.srv.Conn(t)
			if _, err := nc.ChanSubscribe("$JS.API.CONSUMER.MSG.NEXT."+empty+".workers", asked); err != nil {
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
			natstest.Eventually(t, "the idle worker to wait there", func() bool { return waits() > 0 })
			w.check(invariant.Tally{Done: reports + 1})
			// Against one that waits each time there are half as many as reports. A look that a busy server does not answer in time finds the
			// other queue empty, too.
			if n := to - from; n > reports/10 {
				t.Errorf("%d pulls waited at the empty queue during the backlog of %d reports, want hardly one", n, reports)
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
	// Strictly they alternate; a look that a busy server does not answer in time finds a queue empty.
	if got := strings.Join(order, ""); strings.Count(got[:20], "P") < 3 || strings.Count(got[:20], "Q") < 3 {
		t.Errorf("the queues were worked in the order %s, want them to alternate", got)
	}
}

// Once the numbers of the deliveries do not rise, every message counts as older than the consumer until that has been looked at.
func TestOlder(t *testing.T) {
	t.Parallel()
	made := time.Now()
	before, after := made.Add(-time.Second), made.Add(time.Second)
	type step struct {
		number    uint64
		published time.Time
		older     bool
	}
	for name, steps := range map[string][]step{
		"rising":           {{8, after, false}, {9, after, false}, {1000, after, false}},
		"published before": {{8, before, true}, {9, after, false}, {10, before, true}},
		"falling":          {{8, after, false}, {9, after, false}, {1, after, true}, {2, after, true}, {30, after, true}},
		"repeated":         {{8, after, false}, {8, after, true}, {9, after, true}},
		"since the look":   {{7, after, true}, {8, after, true}},
		"a late one":       {{20, after, false}, {12, after, true}, {21, after, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := durable{checked: made, made: made, last: 7}
			looked := false
			for _, s := range steps {
				meta := &nats.MsgMetadata{Sequence: nats.SequencePair{Consumer: s.number}, Timestamp: s.published}
				if got := q.older(meta); got != s.older {
					t.Errorf("number %d: older: %t, want %t", s.number, got, s.older)
				}
				looked = looked || s.older && s.published == after
				if again := q.checked.IsZero(); again != looked {
					t.Errorf("number %d: the consumer is looked at again: %t, want %t", s.number, again, looked)
				}
			}
			last := steps[len(steps)-1].number
			q.checked = time.Now()
			meta := &nats.MsgMetadata{Sequence: nats.SequencePair{Consumer: last + 1}, Timestamp: after}
			if q.older(meta) {
				t.Error("after a look a message that was published since counts as older")
			}
		})
	}
}

// The numbers of a worker's deliveries rise while another pulls too, messages are delivered again and the server restarts.
func TestNumbersRise(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	const reports = 60
	for i := range reports {
		w.publish(fmt.Sprint("R", i))
	}
	var pullers []*puller
	var known []*durable
	for range 2 {
		p, err := w.open().newPuller(stream.Reports)
		if err != nil {
			t.Fatal(err)
		}
		info, err := w.queues().Worker(t.Context(), stream.Reports)
		if err != nil {
			t.Fatal(err)
		}
		pullers, known = append(pullers, p), append(known, &durable{checked: time.Now(), made: info.CachedInfo().Created})
	}
	restarted := false
	for done, n := 0, 0; done < reports; n++ {
		p, q := pullers[n%2], known[n%2]
		got, _, _, err := p.pull(5, false)
		if err != nil && !errors.Is(err, errReconnected) && !errors.Is(err, nats.ErrTimeout) { // a busy server is late
			t.Fatal(err)
		}
		for _, m := range got {
			meta, err := m.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			if q.older(meta) {
				t.Errorf("delivery %d of message %d, number %d, counts as one of another consumer", meta.NumDelivered, meta.Sequence.Stream, meta.Sequence.Consumer)
			}
			word := "+ACK"
			if meta.NumDelivered == 1 && meta.Sequence.Stream%2 == 0 {
				word = "-NAK"
			} else {
				done++
			}
			if _, err := p.nc.Request(m.Reply, []byte(word), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if done > reports/2 && !restarted { // what waits for its second delivery has it after AckWait
			restarted = true
			w.srv.Restart(t)
			for _, p := range pullers {
				natstest.Eventually(t, "a worker to reconnect", func() bool { return p.nc.Stats().Reconnects > 0 && p.nc.IsConnected() })
			}
		}
	}
}
