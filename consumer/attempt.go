package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/guyline/guyline/report"
)

// attempt runs the handler once under its time-out and returns a checked result or an error. A panic is an error, and so is
// a handler that does not return.
func (c *Consumer) attempt(d *delivery) (report.Result, error) {
	ctx := newAttemptContext(c.running, c.cfg.AttemptTimeout)
	defer ctx.end()
	returns := d.handlers.call(func() (report.Result, error) { return c.guarded(ctx, d) })
	r, ok := d.handlers.wait(c.running, returns, c.cfg.AttemptTimeout)
	if !ok {
		select {
		case r = <-returns:
		case <-time.After(c.handlerGrace()):
			d.stuck = returns
			d.handlers.leave()
			d.log().Error("handler ignores that its context has ended; it keeps its slot until it returns")
			if c.running.Err() != nil {
				return nil, errCut
			}
			return nil, report.Transient(report.CodeTimeout, fmt.Errorf("the handler did not return within %v", c.cfg.AttemptTimeout))
		}
	}
	result, err := r.result, r.err
	if r.ended {
		d.handlers.leave()
		err = report.PanicError("the handler ended its goroutine")
	}
	if err == nil {
		if result == nil {
			result = report.Result("{}")
		}
		err = result.Check()
	}
	switch _, kinded := errors.AsType[*report.Error](err); {
	case err != nil && c.running.Err() != nil:
		return nil, errCut
	case err != nil && !kinded && ctx.Err() != nil:
		return nil, report.Transient(report.CodeTimeout, fmt.Errorf("not done within %v: %w", c.cfg.AttemptTimeout, err))
	}
	return result, err
}

// handlerGrace is how long a handler may take to return after its context has ended.
func (c *Consumer) handlerGrace() time.Duration {
	return min(max(c.cfg.AttemptTimeout/10, 100*time.Millisecond), 5*time.Second)
}

// guarded calls the handler and turns a panic into an error.
func (c *Consumer) guarded(ctx context.Context, d *delivery) (result report.Result, err error) {
	defer func() {
		if value := recover(); value != nil {
			d.log().Error("handler panicked", "panic", report.Clean(fmt.Sprint(value)), "stack", report.Cut(string(debug.Stack()), 4<<10))
			result, err = nil, report.PanicError(value)
		}
	}()
	return c.handler(ctx, d.Event)
}
