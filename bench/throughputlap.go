package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/stream"
)

// lap is one design's way through one backlog.
type lap struct {
	cfg     ThroughputConfig
	design  Design
	how     design
	reports int // messages published
	unique  int // different reports among them
	place   *Place
	js      jetstream.JetStream
	server  string // its version

	settled    atomic.Int64 // deliveries that were acknowledged
	duplicates atomic.Int64
	all        chan struct{} // closed when every message is settled
	fail       context.CancelCauseFunc

	seconds        float64
	cpu            time.Duration // of both processes
	cpuErr         error
	client, memory int64 // most resident memory, of this process and the server's
	memoryErr      error
}

// lap runs one design. With every > 0 each so manieth message is a duplicate of an earlier one.
func (c ThroughputConfig) lap(ctx context.Context, d Design, reports, every int) (_ *lap, err error) {
	l := &lap{cfg: c, design: d, how: designs[d], reports: reports, unique: reports, all: make(chan struct{})}
	if every > 0 {
		l.unique -= reports / every
	}
	if l.place, err = Open(ctx, c.Place); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.place.Close()) }()
	nc, err := l.place.Connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	l.server = nc.ConnectedServerVersion()
	if l.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(30*time.Second)); err != nil { // as the product's commands do
		return nil, err
	}
	mine, err := stake(ctx, l.js, c.consumerConfig().Queues)
	if err != nil {
		return nil, err
	}
	if c.Place.Mode == Given { // else the store goes as a whole
		defer func() { err = errors.Join(err, mine.leave(context.WithoutCancel(ctx), uint64(reports))) }()
	}
	if err := l.publish(ctx, every); err != nil {
		return nil, fmt.Errorf("publish the backlog: %w", err)
	}
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	return l, l.check(ctx)
}

// run has the design work and measures it: from its first pull until the server says that nothing is waiting or in work.
func (l *lap) run(ctx context.Context) error {
	ctx, l.fail = context.WithCancelCause(ctx)
	defer l.fail(nil)
	work, err := l.how.open(ctx, l)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // collects garbage, too: a lap does not pay for the one before it
	l.memoryErr = l.place.ResetPeak()
	working, finish := context.WithCancel(ctx)
	defer finish()
	ended := make(chan struct{})
	before, err := l.place.CPU()
	started := time.Now()
	go func() {
		defer close(ended)
		if err := work(working); err != nil && working.Err() == nil {
			l.fail(err)
		}
	}()
	emptied := l.awaitEmpty(ctx)
	l.seconds = time.Since(started).Seconds()
	after, again := l.place.CPU()
	l.cpu, l.cpuErr = after-before, errors.Join(err, again)
	if l.memoryErr == nil {
		l.client, l.memory, l.memoryErr = l.place.Peak()
	}
	finish()
	<-ended
	return emptied
}

// awaitEmpty returns when the server says that the queue is empty. It does not ask before every report was settled, as far as this process
// knows: asking would cost what is measured.
func (l *lap) awaitEmpty(ctx context.Context) error {
	look := time.NewTicker(stuck)
	defer look.Stop()
	for last := int64(-1); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.all:
		case <-look.C:
			if now := l.settled.Load(); now == last {
				return fmt.Errorf("%d of %d reports are settled, and none in the last %v", now, l.reports, stuck)
			} else {
				last = now
			}
			continue
		}
		break
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(stuck); ; {
		empty, err := l.empty(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case empty:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("every report is settled, but the queue is not empty after %v", stuck)
		}
		<-again.C
	}
}

// queue is the stream that the design works.
func (l *lap) queue() string {
	if l.how.limits {
		return limitsStream
	}
	return stream.Reports
}

func (l *lap) empty(ctx context.Context) (bool, error) {
	c, err := l.js.Consumer(ctx, l.queue(), stream.Consumer)
	if err != nil {
		return false, err
	}
	if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
		return false, nil
	}
	if l.how.limits {
		return true, nil
	}
	s, err := l.js.Stream(ctx, stream.Reports)
	return err == nil && s.CachedInfo().State.Msgs == 0, err
}

// settle counts a delivery that was acknowledged.
func (l *lap) settle(duplicate bool) {
	if duplicate {
		l.duplicates.Add(1)
	}
	if l.settled.Add(1) == int64(l.reports) {
		close(l.all)
	}
}

// check compares what the lap has left behind with what it must leave.
func (l *lap) check(ctx context.Context) error {
	if got, want := l.duplicates.Load(), int64(l.reports-l.unique); got != want {
		return fmt.Errorf("%d duplicates were counted of %d reports, want %d", got, l.reports, want)
	}
	want := map[string]int{ledgerStream: 0, stream.Requeued: 0, dlq.Stream: 0}
	if l.how.ledger {
		want[ledgerStream] = l.unique
	}
	for name, n := range want {
		s, err := l.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("check the outcome: %w", err)
		}
		if got := s.CachedInfo().State.Msgs; got != uint64(n) {
			return fmt.Errorf("%d messages are in %s, want %d", got, name, n)
		}
	}
	if n := l.settled.Load(); n != int64(l.reports) {
		return fmt.Errorf("%d reports were settled, want %d", n, l.reports)
	}
	s, err := l.js.Stream(ctx, audit.Stream)
	if err == nil && s.CachedInfo().State.Msgs != 0 {
		err = fmt.Errorf("%d events are in %s: attempts have failed", s.CachedInfo().State.Msgs, audit.Stream)
	}
	return err
}

// ledgerStream is where a commit goes, in each design the same.
var (
	ledgerStream  = keyvalue.LedgerStream
	ledgerSubject = "$KV." + strings.TrimPrefix(ledgerStream, "KV_") + "."
)

// publish fills the queue.
func (l *lap) publish(ctx context.Context, every int) error {
	var failed atomic.Pointer[error]
	js, err := jetstream.New(l.js.Conn(), jetstream.WithPublishAsyncMaxPending(4096),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { failed.CompareAndSwap(nil, &err) }))
	if err != nil {
		return err
	}
	for i := range l.reports {
		m := backlog(i, every)
		if l.how.limits {
			m.Subject = limitsPrefix + m.Subject[len(submittedPrefix):]
		}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(stuck)); err != nil {
			return err
		}
		if ctx.Err() != nil || failed.Load() != nil {
			break
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(stuck):
		return fmt.Errorf("no answer for %v", stuck)
	}
	js.CleanupPublisher()
	if err := failed.Load(); err != nil {
		return *err
	}
	s, err := l.js.Stream(ctx, l.queue())
	if err == nil && s.CachedInfo().State.Msgs != uint64(l.reports) {
		err = fmt.Errorf("%d messages are in %s, want %d", s.CachedInfo().State.Msgs, l.queue(), l.reports)
	}
	return err
}
