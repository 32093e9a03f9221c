package consumer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// settles collects what workers tell the server about messages: +ACK, -NAK, +WPI, +TERM.
type settles struct {
	nc    *nats.Conn
	words chan *nats.Msg

	mu   sync.Mutex
	said []string
}

func (w *world) listen() *settles {
	w.Helper()
	s := &settles{nc: w.srv.Conn(w), words: make(chan *nats.Msg, 1<<12)}
	_, err := s.nc.ChanSubscribe("$JS.ACK.>", s.words)
	if err == nil {
		err = s.nc.Flush()
	}
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// all is what the server has heard until now.
func (s *settles) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.nc.Flush() // what has been said is in the channel then; without a server nothing has
	for {
		select {
		case m := <-s.words:
			s.said = append(s.said, string(m.Data))
		default:
			return append([]string{}, s.said...)
		}
	}
}

func (s *settles) count(word string) (n int) {
	for _, said := range s.all() {
		if strings.HasPrefix(said, word) {
			n++
		}
	}
	return n
}

// Every delivery is settled once, and only after what it stands for is written.
func TestEachDeliveryIsSettledOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		runs  []run // none: it is done already
		said  []string
		kinds []Kind
		want  invariant.Tally
	}{
		"duplicate": {nil, []string{"+ACK"}, []Kind{Duplicate}, invariant.Tally{Done: 1}},
		"success":   {[]run{succeed}, []string{"+ACK"}, []Kind{Succeeded}, invariant.Tally{Done: 1}},
		"retry": {[]run{asking(7 * time.Millisecond), succeed}, []string{`-NAK {"delay": 7000000}`, "+ACK"},
			[]Kind{Retried, Succeeded}, invariant.Tally{Done: 1}},
		"poison": {[]run{poison}, []string{"+TERM no trailer"}, []Kind{Buried}, invariant.Tally{Dead: 1}},
		"exhausted": {times(2, asking(time.Millisecond)), []string{`-NAK {"delay": 1000000}`, "+TERM exhausted 2 attempts: slow down"},
			[]Kind{Retried, Buried}, invariant.Tally{Dead: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Queues.AckWait = time.Hour
			cfg.Queues.MaxAttempts = 2
			cfg.Backoff.Jitter = 0
			w := newWorld(t, cfg, script{"A": tt.runs})
			said := w.listen()
			w.publish("A")
			if tt.runs == nil {
				w.commit("A")
			}
			w.start()
			w.check(tt.want)
			if diff := cmp.Diff(tt.said, said.all()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			var kinds []Kind
			for _, o := range w.outcomes["A"] {
				kinds = append(kinds, o.Kind)
			}
			if diff := cmp.Diff(tt.kinds, kinds); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

// asking fails and asks for a delay.
func asking(d time.Duration) run {
	return func(context.Context) (report.Result, error) {
		return nil, report.RetryAfter(d, report.CodeThrottled, errSlowDown)
	}
}

// However long the work takes, heartbeats keep the report with its worker.
func TestHeartbeatsKeepTheReport(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = 6 * time.Second // a busy machine may be late with a heartbeat
	w := newWorld(t, cfg, script{})
	said := w.listen()
	enough := make(chan struct{})
	w.script["A"] = []run{func(ctx context.Context) (report.Result, error) {
		<-enough
		return succeed(ctx)
	}}
	w.publish("A")
	w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	w.start() // would take it
	natstest.Eventually(t, "heartbeats of twice AckWait", func() bool { return said.count("+WPI") >= 7 })
	close(enough)
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A").Attempts; got != 1 {
		t.Errorf("the ledger counts %d attempts, want 1", got)
	}
}

// No heartbeat follows the last word about a message, however long the observer takes: after a NAK it would move the delay.
func TestNoHeartbeatAfterTheLastWord(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = time.Hour // the only heartbeats are the ones below
	w := newWorld(t, cfg, script{"A": {fail, succeed}, "P": {poison}, "C": {untilCut, succeed}})
	said := w.listen()
	w.publish("A", "P")
	k := w.open()
	k.cfg.Observe = func(o Outcome) {
		for _, d := range k.hand.all() {
			d.heartbeat()
		}
		w.observe(o)
	}
	k.slots, k.cfg.Workers = newSlots(1), 1 // only the message that is observed is in hand
	w.run(k)
	w.await("A", Succeeded)
	w.await("P", Buried)
	w.publish("C")
	natstest.Eventually(t, "the last report to run", func() bool { return w.ran("C") == 1 })
	k.stop()
	k.Cut()
	awaitClosed(t, "the worker to end", k.returned)
	if got := w.saw("C", HandedBack); got == 0 {
		t.Error("the last report was not handed back")
	}
	if got := said.count("+WPI"); got > 0 {
		t.Errorf("%d heartbeats followed a last word: %q", got, said.all())
	}
	w.start()
	w.check(invariant.Tally{Done: 2, Dead: 1})
}

// A worker that has lost a report buries it only if nobody has: what an operator has done with the letter since stands.
func TestLostReportIsBuriedOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		act  func(context.Context, *dlq.Queue, uint64) (dlq.Outcome, error)
		want invariant.Tally
	}{
		"discarded": {func(ctx context.Context, q *dlq.Queue, seq uint64) (dlq.Outcome, error) {
			return q.Discard(ctx, seq, dlq.By{Actor: "test", Reason: "hopeless"})
		}, invariant.Tally{Discarded: 1}},
		"replayed": {func(ctx context.Context, q *dlq.Queue, seq uint64) (dlq.Outcome, error) {
			return q.Replay(ctx, seq, dlq.By{Actor: "test", Reason: "repaired"})
		}, invariant.Tally{Waiting: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			w := newWorld(t, quick(), script{"A": {func(ctx context.Context) (report.Result, error) {
				<-release
				return poison(ctx)
			}, poison}})
			w.publish("A")
			slow := w.start(stale("3 ledger"))
			natstest.Eventually(t, "the slow worker to have it", func() bool { return w.ran("A") == 1 })
			slow.stop() // it takes nothing else
			other := w.start()
			w.await("A", Buried)
			if err := other.end(); err != nil {
				t.Errorf("Run: %v", err)
			}
			l := w.letter("A")
			if _, err := tt.act(t.Context(), w.letters(), l.Sequence); err != nil {
				t.Fatal(err)
			}
			close(release)
			awaitClosed(t, "the slow worker to end", slow.returned)
			if buried, dup := w.saw("A", Buried), w.saw("A", Duplicate); buried != 1 || dup != 1 {
				t.Errorf("buried %d times and once more in vain %d times, want once each", buried, dup)
			}
			w.check(tt.want)
			if tt.want.Waiting == 1 {
				if m := w.stored(stream.Requeued); m.Carried.ReplayOf != l.Sequence {
					t.Errorf("the queue holds %+v, want the replay", m.Carried)
				}
			}
		})
	}
}
