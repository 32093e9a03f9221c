package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A context of an attempt says what one of [context.WithTimeoutCause] does, whenever it is asked.
func TestAttemptContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	later := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		t.Cleanup(cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		parent func(context.Context) context.Context
		after  func(stop, end func())
		err    error
		cause  error
	}{
		"running":            {},
		"out of time":        {after: func(_, _ func()) { <-time.After(time.Minute) }, err: context.DeadlineExceeded, cause: errTimedOut},
		"ended":              {after: func(_, end func()) { end() }, err: context.Canceled, cause: context.Canceled},
		"the parent is":      {after: func(stop, _ func()) { stop() }, err: context.Canceled, cause: errStopped},
		"the parent's later": {parent: later, after: func(_, _ func()) { <-time.After(time.Minute) }, err: context.DeadlineExceeded, cause: errTimedOut},
	} {
		for _, asked := range []string{"before", "after"} {
			t.Run(name+", asked "+asked, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					parent, stop := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					defer stop(nil)
					if c.parent != nil {
						parent = c.parent(parent)
					}
					ctx := newAttemptContext(parent, time.Minute)
					defer ctx.end()
					var done <-chan struct{}
					if asked == "before" {
						done = ctx.Done()
					}
					if c.after != nil {
						c.after(func() { stop(errStopped) }, ctx.end)
					}
					synctest.Wait()
					if done == nil {
						done = ctx.Done()
					}
					select {
					case <-done:
						if c.err == nil {
							t.Error("it has ended")
						}
					default:
						if c.err != nil {
							t.Error("it has not ended")
						}
					}
					if err := ctx.Err(); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
						t.Errorf("Err is %v, want %v", err, c.err)
					}
					if cause := context.Cause(ctx); cause != c.cause {
						t.Errorf("the cause is %v, want %v", cause, c.cause)
					}
					if got := ctx.Value(key{}); got != "value" {
						t.Errorf("the value is %v", got)
					}
					below, cancel := context.WithCancel(ctx)
					defer cancel()
					if (below.Err() == nil) != (c.err == nil) {
						t.Errorf("a context below it says %v", below.Err())
					}
				})
			})
		}
	}
}

func TestAttemptContextDeadline(t *testing.T) {
	t.Parallel()
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want, _ := soon.Deadline()
	ctx := newAttemptContext(soon, time.Hour)
	defer ctx.end()
	if got, ok := ctx.Deadline(); !ok || got != want {
		t.Errorf("the deadline is %v, want the parent's, %v", got, want)
	}
	ctx = newAttemptContext(t.Context(), time.Hour)
	defer ctx.end()
	got, ok := ctx.Deadline()
	if real, _ := ctx.context().Deadline(); !ok || got != real {
		t.Errorf("the deadline is %v before, and %v after it was asked for", got, real)
	}
}
