package consumer

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errTimedOut = errors.New("the attempt's time is over")

// attemptContext is the context of one attempt: what [context.WithTimeoutCause] makes of its parent, made when somebody asks for more than
// how long there is left. A light handler does not, and a timer, a channel and a place among the parent's children cost more than
// all that is done to run it.
type attemptContext struct {
	parent context.Context
	until  time.Time

	mu     sync.Mutex
	real   context.Context // nil until it is asked for
	cancel context.CancelFunc
	ended  bool
}

func newAttemptContext(parent context.Context, timeout time.Duration) *attemptContext {
	return &attemptContext{parent: parent, until: time.Now().Add(timeout)}
}

// end is the context's cancel function.
func (c *attemptContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.cancel != nil {
		c.cancel()
	}
}

func (c *attemptContext) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.cancel = context.WithDeadlineCause(c.parent, c.until, errTimedOut)
		if c.ended {
			c.cancel()
		}
	}
	return c.real
}

// Deadline is that of the attempt, or an earlier one of the parent.
func (c *attemptContext) Deadline() (time.Time, bool) {
	if of, ok := c.parent.Deadline(); ok && of.Before(c.until) {
		return of, true
	}
	return c.until, true
}

// Done, Err and Value are those of the real context, which is made for them.
func (c *attemptContext) Done() <-chan struct{} { return c.context().Done() }
func (c *attemptContext) Err() error            { return c.context().Err() }
func (c *attemptContext) Value(key any) any     { return c.context().Value(key) }
