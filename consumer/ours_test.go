package consumer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func deliveryOf(sequence, count uint64, published time.Time) *delivery {
	ref := stream.Ref{Stream: stream.Reports, Sequence: sequence}
	return &delivery{Message: stream.Message{Ref: ref, Identity: ref, PublishedAt: published}, count: count}
}

func TestOurs(t *testing.T) {
	t.Parallel()
	t0 := time.Now().UTC()
	for name, tt := range map[string]struct {
		next *delivery
		want bool
	}{
		"the next delivery":        {deliveryOf(7, 3, t0), true},
		"another had one between":  {deliveryOf(7, 4, t0), false},
		"its count has begun anew": {deliveryOf(7, 1, t0), false},
		"another report":           {deliveryOf(8, 3, t0), false},
		"its stream is another":    {deliveryOf(7, 3, t0.Add(1)), false},
	} {
		var o ours
		o.add(deliveryOf(7, 2, t0))
		if got := o.take(tt.next); got != tt.want {
			t.Errorf("%s is ours: %t, want %t", name, got, tt.want)
		}
		if o.take(tt.next) {
			t.Errorf("%s is ours again", name)
		}
	}

	var o ours
	o.add(deliveryOf(7, 2, t0))
	o.forget()
	if o.take(deliveryOf(7, 3, t0)) {
		t.Error("what was forgotten is ours")
	}

	// Those that never come back make room for others: the latest are known.
	for i := range uint64(5 * mostOurs / 2) {
		o.add(deliveryOf(i, 1, t0))
	}
	if n := len(o.new) + len(o.former); n > 2*mostOurs {
		t.Errorf("%d are kept, want at most %d", n, 2*mostOurs)
	}
	if !o.take(deliveryOf(5*mostOurs/2-1, 2, t0)) || !o.take(deliveryOf(3*mostOurs/2, 2, t0)) || o.take(deliveryOf(0, 2, t0)) {
		t.Error("not the latest are known, or the first still is")
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	ours := deliveryOf(7, 2, time.Now())
	ours.ours = true
	copied := deliveryOf(7, 2, time.Now())
	copied.ours, copied.Identity.Sequence = true, 5 // the message that it stands for may have been buried
	older := deliveryOf(7, 1, time.Now())
	older.older = true
	forgotten := deliveryOf(7, 1, time.Now())
	forgotten.forgotten = 1
	for name, tt := range map[string]struct {
		d    *delivery
		want bool
	}{
		"the first":                {deliveryOf(7, 1, time.Now()), false},
		"the second":               {deliveryOf(7, 2, time.Now()), true},
		"the second, put off here": {ours, false},
		"of a copy":                {copied, true},
		"older than the consumer":  {older, true},
		"the first that counts":    {forgotten, true},
	} {
		if got := tt.d.again(); got != tt.want {
			t.Errorf("%s: somebody may have had it: %t, want %t", name, got, tt.want)
		}
	}
}

// While it is not known whether the consumer is still the same one, nothing is one's own.
func TestOursOfAnotherConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	k := w.open()
	stored := time.Unix(0, 1)
	for name, q := range map[string]*durable{
		"known": {checked: time.Now(), made: stored}, "unknown": {}, "younger": {checked: time.Now(), made: stored.Add(1)},
	} {
		k.ours.add(deliveryOf(1, 1, stored))
		d, err := k.receive(&nats.Msg{Sub: new(nats.Subscription), Reply: "$JS.ACK.REPORTS.workers.2.1.9.1.0", Data: payload("A")}, time.Now(), q)
		if err != nil {
			t.Fatal(err)
		}
		if want := name == "known"; d.ours != want {
			t.Errorf("the consumer is %s: ours is %t, want %t", name, d.ours, want)
		}
	}
}

// shutAfterRetry lets a worker take nothing more once it has put a report off. The gate is to be opened again.
func shutAfterRetry(w *world) (k *worker, off chan struct{}) {
	k, off = w.open(), make(chan struct{})
	k.cfg.Observe = func(o Outcome) {
		w.observe(o)
		if o.Kind == Retried {
			k.gate.shut()
			close(off)
		}
	}
	return k, off
}

// What a worker has put off itself it looks up in the ledger only; what another may have had, also among the letters and in the trail.
func TestRetriesOfOnesOwn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		next  func(w *world, first *worker)
		asked bool
	}{
		"its own":       {func(_ *world, first *worker) { first.gate.open() }, false},
		"another's":     {func(w *world, _ *worker) { w.start() }, true},
		"after trouble": {func(_ *world, first *worker) { first.trouble(); first.gate.open() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Workers = 1 // no pull is open while the report is in hand
			cfg.Queues.AckWait = time.Minute
			cfg.Sweep = time.Hour
			w := newWorld(t, cfg, script{"A": {asking(time.Millisecond), succeed}})
			w.publish("A")
			first, off := shutAfterRetry(w)
			asked := make(chan *nats.Msg, 16)
			for _, subject := range []string{
				"$JS.API.STREAM.MSG.GET." + dlq.Stream, "$JS.API.DIRECT.GET." + dlq.Stream + ".>",
				"$JS.API.STREAM.MSG.GET." + audit.Stream, "$JS.API.DIRECT.GET." + audit.Stream,
			} {
				if _, err := w.js.Conn().ChanSubscribe(subject, asked); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.js.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			w.run(first)
			<-off
			tt.next(w, first)
			w.await("A", Succeeded)
			if err := w.js.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			if got := len(asked) > 0; got != tt.asked {
				t.Errorf("letters or the trail were asked: %t, want %t", got, tt.asked)
			}
			w.check(invariant.Tally{Done: 1})
		})
	}
}

// What another has had first is never one's own: it may yet bury it.
func TestRetryOfAnothersReport(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1
	cfg.Queues.AckWait = time.Minute
	cfg.Sweep = time.Hour
	w := newWorld(t, cfg, script{"A": {asking(time.Millisecond), asking(time.Millisecond), succeed}})
	w.publish("A")
	first, off := shutAfterRetry(w)
	w.run(first)
	<-off
	second, off := shutAfterRetry(w)
	w.run(second)
	<-off
	if n := len(second.ours.new); n > 0 {
		t.Errorf("%d reports are the second worker's own", n)
	}
	second.gate.open()
	w.check(invariant.Tally{Done: 1})
}

// A worker puts a report off; another buries it and dies before it has let it go; then the first has it again, and does not work it.
func TestBuriedBetweenRetriesOfOnesOwn(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1
	w := newWorld(t, cfg, script{"A": {asking(time.Millisecond), poison}})
	w.publish("A")
	first, off := shutAfterRetry(w)
	w.run(first)
	<-off
	died := w.start(dyingAt("7c letter"))
	natstest.Eventually(t, "the second worker to die", died.nc.IsClosed)
	first.gate.open()
	w.await("A", Buried)
	w.check(invariant.Tally{Dead: 1})
	if got := w.ran("A"); got != 2 {
		t.Errorf("the handler ran %d times, want 2", got)
	}
	w.checkLetter("A", dlq.Letter{Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "no trailer", Attempts: 2})
}

// The server is killed while a report is in hand, forgets that, and delivers it to another worker as if for the first time. What that one has
// begun or ended is no news to the first: neither its retry is its own, nor is its verdict put over what an operator has done since.
func TestForgottenInHand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mine     run
		other    func(*worker)
		operator func(*world)
		outcome  Kind // of the first worker
		ran      int
		want     invariant.Tally
	}{
		"a burial that was cut short": {asking(time.Millisecond), dyingAt("7c letter"), func(*world) {}, Buried, 2, invariant.Tally{Dead: 1}},
		"a letter that was discarded": {poison, func(*worker) {}, func(w *world) {
			w.await("A", Buried)
			by := dlq.By{Actor: "ada@office", Reason: "withdrawn"}
			if outcome, err := w.letters().Discard(w.Context(), w.letter("A").Sequence, by); outcome != dlq.Discarded || err != nil {
				w.Fatal(outcome, err)
			}
		}, Duplicate, 2, invariant.Tally{Discarded: 1}},
	} {
		for _, noticed := range []bool{true, false} { // by the pulls of the first worker, while the report is in its hand
			t.Run(fmt.Sprintf("%s, noticed %v", name, noticed), func(t *testing.T) {
				t.Parallel()
				cfg := quick()
				cfg.Workers = 2
				cfg.Queues.AckWait = time.Minute
				cfg.Sweep = time.Hour
				running, goOn := make(chan struct{}), make(chan struct{})
				w := newWorld(t, cfg, script{"A": {func(ctx context.Context) (report.Result, error) {
					close(running)
					<-goOn
					return tt.mine(ctx)
				}, poison}})
				w.publish("A")
				first := w.start()
				<-running
				first.gate.shut()
				w.srv.Forget(t, stream.Reports, stream.Consumer)
				natstest.Eventually(t, "the first worker to be connected again", func() bool { return first.nc.Stats().Reconnects > 0 })
				other := w.start(tt.other)
				natstest.Eventually(t, "the other worker to have it", func() bool { return w.ran("A") == 2 })
				tt.operator(w)
				other.stop()
				awaitClosed(t, "the other worker to end", other.returned)
				if noticed {
					before := first.ours.troubles.Load()
					first.gate.open()
					natstest.Eventually(t, "both pulls to notice", func() bool { return first.ours.troubles.Load() >= before+2 })
				}
				close(goOn)
				if !noticed {
					first.gate.open()
				}
				w.await("A", tt.outcome)
				w.check(tt.want)
				if got := w.ran("A"); got != tt.ran {
					t.Errorf("the handler ran %d times, want %d", got, tt.ran)
				}
			})
		}
	}
}
