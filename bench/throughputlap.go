package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/stream"
)

// lap is one design's way through one backlog.
type lap struct {
	cfg     ThroughputConfig
	design  Design
	how     design
	rep     int // 0: its counts alone are wanted
	every   int // each so manieth message is a duplicate; 0: none
	reports int // messages published
	unique  int // different reports among them
	place   *place
	claim   *claim
	js      jetstream.JetStream
	server  string // its version

	settled    atomic.Int64 // deliveries that were acknowledged
	duplicates atomic.Int64
	all        chan struct{} // closed when every message is settled
	fail       context.CancelCauseFunc

	redelivered int // what the server has delivered more than once
	usage       Usage
}

// lap runs one design. In repetition 0 the backlog is a short one, in which every fourth message is a duplicate.
func (c ThroughputConfig) lap(ctx context.Context, d Design, rep int) (_ *lap, err error) {
	l := &lap{cfg: c, design: d, how: designs[d], rep: rep, reports: c.Reports, unique: c.Reports, all: make(chan struct{})}
	if rep == 0 {
		l.reports, l.every = min(c.Reports, checked), 4
		l.unique = l.reports - l.reports/l.every
	}
	if c.Place.Mode == Given {
		return l, l.on(ctx, c.Place, l.prepare, l.run, l.check)
	}
	if l.cfg.Place.Dir, err = os.MkdirTemp("", "guyline-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.cfg.Place.Dir)) }()
	if c.Place.Sync == Interval {
		return l, l.on(ctx, l.cfg.Place, l.prepare, l.run, l.check)
	}
	lazy := l.cfg.Place // what is not measured need not be synced write by write
	lazy.Sync = Interval
	if err := l.on(ctx, lazy, l.prepare, l.rest); err != nil {
		return nil, err
	}
	return l, l.on(ctx, l.cfg.Place, l.run, l.check)
}

// on takes steps on a server, until one fails.
func (l *lap) on(ctx context.Context, place Config, steps ...func(context.Context) error) (err error) {
	if l.place, err = openPlace(ctx, place); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.place.close()) }()
	nc, err := l.place.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	l.server = nc.ConnectedServerVersion()
	if l.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(30*time.Second)); err != nil { // as the product's commands do
		return err
	}
	if place.Mode == Given { // else the store goes as a whole
		defer func() {
			if l.claim != nil {
				err = errors.Join(err, l.claim.leave(context.WithoutCancel(ctx), uint64(l.reports)))
			}
		}()
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the streams and fills the queue.
func (l *lap) prepare(ctx context.Context) (err error) {
	if l.claim, err = stake(ctx, l.js, l.cfg.consumerConfig().Queues); err != nil {
		return err
	}
	if err := l.publish(ctx); err != nil {
		return fmt.Errorf("publish the backlog: %w", err)
	}
	return nil
}

// rest ends a separate server in good order, so that it has nothing to recover when it starts again.
func (l *lap) rest(context.Context) error {
	if l.cfg.Place.Mode != Separate {
		return nil // closing an embedded one does
	}
	l.js.Conn().Close()
	return l.place.stop()
}

// run has the design work and measures it: from its first pull until the server says that nothing is waiting or in work.
func (l *lap) run(ctx context.Context) (failed error) {
	ctx, l.fail = context.WithCancelCause(ctx)
	defer l.fail(nil)
	work, err := l.how.open(ctx, l)
	if err != nil {
		return err
	}
	if l.cfg.Profile != "" && l.rep > 0 {
		stop, err := l.place.profile(ctx, filepath.Join(l.cfg.Profile, fmt.Sprintf("%s-%d", l.design, l.rep)))
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, stop()) }()
	}
	working, finish := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer finish()
	l.usage, err = l.place.measure(l.reports, func() error {
		ended.Go(func() {
			if err := work(working); err != nil && working.Err() == nil {
				l.fail(err)
			}
		})
		return l.awaitEmpty(ctx)
	})
	return err
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
			now := l.settled.Load()
			if now == last {
				return fmt.Errorf("%d of %d reports are settled, and none in the last %v", now, l.reports, stuck)
			}
			last = now
			continue
		}
		break
	}
	again := time.NewTicker(5 * time.Millisecond)
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

// check compares what the lap has left behind with what it must leave. A message that the server has delivered twice, because it or this
// process stood still for AckWait, may be a duplicate of itself.
func (l *lap) check(ctx context.Context) error {
	c, err := l.js.Consumer(ctx, l.queue(), stream.Consumer)
	if err != nil {
		return fmt.Errorf("check the outcome: %w", err)
	}
	l.redelivered = int(c.CachedInfo().Delivered.Consumer) - l.reports
	if got, want := int(l.duplicates.Load()), l.reports-l.unique; got < want || got > want+l.redelivered {
		return fmt.Errorf("%d duplicates were counted of %d reports, want %d, and up to %d that were delivered again", got, l.reports, want, l.redelivered)
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
	if n := int(l.settled.Load()); n < l.reports || n > l.reports+l.redelivered {
		return fmt.Errorf("%d deliveries were settled, want %d, and up to %d that were repeated", n, l.reports, l.redelivered)
	}
	s, err := l.js.Stream(ctx, audit.Stream)
	if err == nil && s.CachedInfo().State.Msgs != 0 {
		err = fmt.Errorf("%d events are in %s: attempts have failed", s.CachedInfo().State.Msgs, audit.Stream)
	}
	return err
}
