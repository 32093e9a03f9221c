package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/stream"
)

const (
	// pullAgain is the pause after a pull that failed although its consumer is there.
	pullAgain = 10 * time.Millisecond
	// lookAgain is the pause between looks into an empty queue while the other is busy.
	lookAgain = 20 * time.Millisecond
	// recheck is how old the last look at the consumer's settings may be: one that is deleted and made anew between two
	// pulls goes on as if nothing had been.
	recheck = 5 * time.Second
	// reopenAgain is the pause after a consumer could not be found.
	reopenAgain = 500 * time.Millisecond
)

// durable is what is known of a queue's consumer. It is used by one goroutine.
type durable struct {
	checked time.Time // when it was last there, with the right settings; zero at first, after an error, and when it may be another one
	made    time.Time
	last    uint64 // of the numbers that it gives its deliveries
}

// older reports whether a delivery is of a message that a consumer which was deleted may have delivered too. The consumer gives each delivery, also
// the second one of a message, the next number, and one that was made anew begins with 1: if the number does not rise, every message counts as
// older until the consumer has been looked at. Deliveries of two leaders may be out of order, and do no harm: letters are looked for in vain.
func (q *durable) older(meta *nats.MsgMetadata) bool {
	if meta.Sequence.Consumer <= q.last {
		q.checked = time.Time{}
	}
	q.last = meta.Sequence.Consumer
	return q.checked.IsZero() || meta.Timestamp.Before(q.made)
}

// intake takes reports from one queue while there are free slots, until ctx ends. It returns an error only if the worker
// must not go on.
//
// A pull asks for no more reports than it owns slots, which the reports take over. A queue that was not empty at the last look is asked
// without waiting, for as many as there are free slots. An empty one is asked for one only, as what is kept for it is kept from the other,
// and to wait for it, unless the other is busy and that slot may be the last one.
func (c *Consumer) intake(ctx context.Context, name string, mine, other *atomic.Bool) error {
	p, err := c.newPuller(name)
	if err != nil {
		return err
	}
	q := &durable{}
	defer func() { // what came too late is handed back, and needs no slot for that
		c.stop() // also if it is this queue that cannot go on
		left, since, late := p.close()
		c.take(left, since, q, func() {})
		c.take(late, time.Time{}, q, func() {})
	}()
	failures := 0 // to find the consumer, in a row
	mine.Store(true)
	for c.admit(ctx) {
		if time.Since(q.checked) > recheck {
			found, err := c.findWorker(ctx, name, failures)
			if found == nil {
				c.slots.release(1)
				if failures++; err != nil {
					return err
				}
				continue
			}
			if !found.Created.Equal(q.made) {
				c.hand.disown(name, found.Created)
			}
			failures, q.checked, q.made, q.last = 0, time.Now(), found.Created, found.Delivered.Consumer
		}
		if err := c.pull(p, q, mine, other); err != nil {
			c.log.Debug("a pull has failed", "queue", name, "err", err)
			c.trouble()             // what it would have brought may be lost
			q.checked = time.Time{} // the consumer may have been made anew, with other settings
			pause(ctx, pullAgain)
		}
		if !mine.Load() && other.Load() {
			pause(ctx, lookAgain)
		}
	}
	return nil
}

// pull makes one pull with the slot that the caller owns and, if the queue had something at the last look, all others that are free.
func (c *Consumer) pull(p *puller, q *durable, mine, other *atomic.Bool) error {
	own, wait := 1, !mine.Load() && !other.Load()
	if mine.Load() {
		own += int(c.slots.claim(int64(mostPulled - own)))
		if own < min(mostPulled, c.cfg.Workers)/4 { // light reports: more slots come free at once, and a pull costs the same for many
			pause(c.stopping, hurry)
			own += int(c.slots.claim(int64(mostPulled - own)))
		}
	}
	some := false
	for {
		reports, since, more, err := p.pull(own, wait)
		own -= len(reports)
		c.take(reports, since, q, func() { c.slots.release(1) })
		if some = some || len(reports) > 0; own == 0 || !more {
			mine.Store(some)
			c.slots.release(int64(own))
			return err
		}
	}
}

// admit waits until intake is not paused and a slot is free, which the caller then owns. It returns false when ctx ends.
func (c *Consumer) admit(ctx context.Context) bool {
	for {
		if c.gate.wait(ctx) != nil || c.slots.acquire(ctx) != nil {
			return false
		}
		if ctx.Err() == nil && !c.gate.isShut() {
			return true
		}
		c.slots.release(1)
	}
}

// findWorker looks whether the consumer of a queue is there and fits this worker. If it cannot be had for now it returns nil after a
// pause. It returns an error if the worker must not go on: the consumer has other settings by now, or the connection is closed for good.
func (c *Consumer) findWorker(ctx context.Context, name string, failures int) (*jetstream.ConsumerInfo, error) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked := time.Now()
	found, err := c.queues.Worker(ask, name)
	switch {
	case err == nil:
		c.clock.set(found.CachedInfo().TimeStamp, asked, time.Now())
		if failures > 0 {
			c.log.Info("pulling again", "queue", name)
		}
		return found.CachedInfo(), nil
	case ctx.Err() != nil:
		return nil, nil
	case errors.Is(err, stream.ErrDrift):
		return nil, err
	case c.js.Conn().IsClosed():
		return nil, fmt.Errorf("pull from %s: the connection is closed for good: %w", name, err)
	}
	if failures%60 == 0 { // twice a minute
		c.log.Warn("cannot pull, trying again", "queue", name, "err", err)
	}
	pause(ctx, reopenAgain)
	return nil, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
