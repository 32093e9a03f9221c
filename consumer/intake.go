package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/stream"
)

const (
	// longestPull is how long a pull waits for a report. A pull that a restarted server has forgotten is noticed after so long.
	longestPull = time.Second
	// pullAgain is the pause after a pull that failed although its consumer is there.
	pullAgain = 10 * time.Millisecond
	// lookAgain is the pause between looks into an empty queue while the other is busy.
	lookAgain = 20 * time.Millisecond
	// reopenAgain is the pause after a consumer could not be found.
	reopenAgain = 500 * time.Millisecond
)

// intake takes reports from one queue while there are free slots, until ctx ends. It returns an error only if the worker
// must not go on.
//
// Each pull asks for one report and owns one slot, which the report takes over. More at once would put the
// neighbours of a hostile message at risk: an empty body with a Status header ends a pull of the client library as if the server had,
// and what the same pull brings after it is lost until AckWait and costs an attempt (nats.go v1.55.0).
//
// A queue that was not empty at the last look is asked without waiting. An empty one is asked to wait, but not while the
// other is busy: its pull would keep a slot, perhaps the last one, from what the other has.
func (c *Consumer) intake(ctx context.Context, name string, mine, other *atomic.Bool) error {
	var source jetstream.Consumer
	failures := 0 // to find it, in a row
	mine.Store(true)
	for c.admit(ctx) {
		if source == nil {
			var err error
			if source, err = c.reopen(ctx, name, failures); source == nil {
				c.slots.Release(1)
				if failures++; err != nil {
					return err
				}
				continue
			}
			failures = 0
		}
		got, err := c.pull(source, !mine.Load() && !other.Load())
		if !got {
			c.slots.Release(1)
		}
		mine.Store(got)
		if err != nil {
			c.log.Debug("a pull has failed", "queue", name, "err", err)
			source = nil // it may have been created anew, with other settings
			pause(ctx, pullAgain)
		}
		if !got && other.Load() {
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

// pull asks for one report and starts it. It is not cut by a stop: a report on its way would be lost until
// AckWait and cost an attempt.
func (c *Consumer) pull(source jetstream.Consumer, wait bool) (got bool, err error) {
	var batch jetstream.MessageBatch
	if wait {
		batch, err = source.Fetch(1, jetstream.FetchMaxWait(longestPull))
	} else {
		batch, err = source.FetchNoWait(1)
	}
	if err != nil {
		return false, err
	}
	for msg := range batch.Messages() {
		got = true
		c.start(msg)
	}
	return got, batch.Error()
}

// reopen finds the consumer of a queue, or returns nil after a pause if it cannot be had for now. It returns an error
// if the worker must not go on: the consumer has other settings by now, or the connection is closed for good.
func (c *Consumer) reopen(ctx context.Context, name string, failures int) (jetstream.Consumer, error) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	source, err := c.queues.Worker(ask, name)
	switch {
	case err == nil:
		if failures > 0 {
			c.log.Info("pulling again", "queue", name)
		}
		return source, nil
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
