package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

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

// intake takes reports from one queue while there are free slots, until ctx ends. It returns an error only if the worker
// must not go on.
//
// Each pull asks for one report and owns one slot, which the report takes over. A queue that was not empty at the last look is asked
// without waiting. An empty one is asked to wait, but not while the other is busy: its pull would keep a slot, perhaps the
// last one, from what the other has.
func (c *Consumer) intake(ctx context.Context, name string, mine, other *atomic.Bool) error {
	p, err := c.newPuller(name)
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range p.close() { // what came too late: it is handed back, and needs no slot for that
			c.start(m, time.Now().Add(-longestPull), func() {})
		}
	}()
	var checked time.Time // when the consumer was last there, with the right settings; zero at first and after an error
	failures := 0         // to find it, in a row
	mine.Store(true)
	for c.admit(ctx) {
		if time.Since(checked) > recheck {
			found, err := c.findWorker(ctx, name, failures)
			if !found {
				c.slots.Release(1)
				if failures++; err != nil {
					return err
				}
				continue
			}
			failures, checked = 0, time.Now()
		}
		m, since, err := p.pull(!mine.Load() && !other.Load())
		mine.Store(m != nil)
		if m != nil {
			c.start(m, since, func() { c.slots.Release(1) })
			continue
		}
		c.slots.Release(1)
		if err != nil {
			c.log.Debug("a pull has failed", "queue", name, "err", err)
			checked = time.Time{} // it may have been made anew, with other settings
			pause(ctx, pullAgain)
		}
		if other.Load() {
			pause(ctx, lookAgain)
		}
	}
	return nil
}

// admit waits until intake is not paused and a slot is free, which the caller then owns. It returns false when ctx ends.
func (c *Consumer) admit(ctx context.Context) bool {
	for {
		if c.gate.wait(ctx) != nil || c.slots.Acquire(ctx, 1) != nil {
			return false
		}
		if ctx.Err() == nil && !c.gate.isShut() {
			return true
		}
		c.slots.Release(1)
	}
}

// findWorker looks whether the consumer of a queue is there and fits this worker. If it cannot be had for now it returns false
// after a pause. It returns an error if the worker must not go on: the consumer has other settings by now, or the
// connection is closed for good.
func (c *Consumer) findWorker(ctx context.Context, name string, failures int) (bool, error) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.queues.Worker(ask, name)
	switch {
	case err == nil:
		if failures > 0 {
			c.log.Info("pulling again", "queue", name)
		}
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(err, stream.ErrDrift):
		return false, err
	case c.js.Conn().IsClosed():
		return false, fmt.Errorf("pull from %s: the connection is closed for good: %w", name, err)
	}
	if failures%60 == 0 { // twice a minute
		c.log.Warn("cannot pull, trying again", "queue", name, "err", err)
	}
	pause(ctx, reopenAgain)
	return false, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
