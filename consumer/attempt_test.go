package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
)

// bare is a consumer without a server, for one attempt. What it logs is not shown.
func bare(t testing.TB, h Handler) (*Consumer, *delivery) {
	c := &Consumer{cfg: quick(), handler: h, log: slog.New(slog.DiscardHandler)}
	c.cfg.AttemptTimeout = time.Minute
	c.running, c.cut = context.WithCancel(context.Background())
	t.Cleanup(c.cut)
	own := &handlers{all: new(sync.WaitGroup)}
	t.Cleanup(own.close)
	return c, &delivery{logger: c.log, handlers: own}
}

// What a handler does, and as which kind of error that counts.
func TestAttempt(t *testing.T) {
	t.Parallel()
	type verdict struct {
		Kind   report.Kind
		Code   report.Code
		Reason string // its beginning
	}
	for name, tt := range map[string]struct {
		run  run
		want verdict
	}{
		"panic": {func(context.Context) (report.Result, error) { panic("bad page") },
			verdict{report.KindPoison, report.CodePanic, "panic: bad page"}},
		"panic with an error": {func(context.Context) (report.Result, error) {
			panic(report.Transient(report.CodeTimeout, errors.New("x")))
		},
			verdict{report.KindPoison, report.CodePanic, "panic: x"}},
		"runtime error": {func(context.Context) (report.Result, error) {
			var pages []int
			return nil, errors.New(strconv.Itoa(pages[len(pages)]))
		},
			verdict{report.KindPoison, report.CodePanic, "panic: runtime error: index out of range [0] with length 0"}},
		"panic(nil)": {func(context.Context) (report.Result, error) { panic(nil) },
			verdict{report.KindPoison, report.CodePanic, "panic: panic called with nil argument"}},
		"Goexit": {func(context.Context) (report.Result, error) { runtime.Goexit(); return nil, nil },
			verdict{report.KindPoison, report.CodePanic, "panic: the handler ended its goroutine"}},
		"result too large": {func(context.Context) (report.Result, error) {
			return report.Result(`{"x":"` + strings.Repeat("x", report.MaxResult) + `"}`), nil
		}, verdict{report.KindPoison, report.CodeResultTooLarge, "the result has 65544 bytes"}},
		"result is no object": {func(context.Context) (report.Result, error) { return report.Result(`[1]`), nil },
			verdict{report.KindPoison, report.CodeInvalidResult, "the result is not a JSON object"}},
		"result is empty": {func(context.Context) (report.Result, error) { return report.Result{}, nil },
			verdict{report.KindPoison, report.CodeInvalidResult, "the result is not a JSON object"}},
		"its own time-out": {func(ctx context.Context) (report.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, verdict{report.KindTransient, report.CodeTimeout, "not done within 1m0s: context deadline exceeded"}},
		"unclassified after the time-out": {func(ctx context.Context) (report.Result, error) {
			<-ctx.Done()
			return nil, errors.New("file already closed")
		}, verdict{report.KindTransient, report.CodeTimeout, "not done within 1m0s: file already closed"}},
		"poison after the time-out": {func(ctx context.Context) (report.Result, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("page 3: %w", report.Poison(report.CodeMalformedPDF, errors.New("no xref")))
		}, verdict{report.KindPoison, report.CodeMalformedPDF, "page 3: no xref"}},
		"unclassified": {func(context.Context) (report.Result, error) { return nil, errors.New("file already closed") },
			verdict{report.KindPoison, report.CodeUnclassified, "file already closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, d := bare(t, func(ctx context.Context, _ report.Event) (report.Result, error) { return tt.run(ctx) })
				result, err := c.attempt(d)
				if err == nil {
					t.Fatalf("the attempt returned %s, want an error", result)
				}
				got := report.Classify(err)
				if !strings.HasPrefix(err.Error(), tt.want.Reason) {
					t.Errorf("error %q, want it to begin with %q", err, tt.want.Reason)
				}
				if diff := cmp.Diff(tt.want, verdict{got.Kind, got.Code, tt.want.Reason}); diff != "" {
					t.Errorf("verdict (-want +got):\n%s", diff)
				}
				if d.stuck != nil {
					t.Error("the handler counts as stuck although it has returned")
				}
			})
		})
	}
}

// A result counts, even if it comes when the time is over.
func TestAttemptResult(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]run{
		"result": succeed,
		"late": func(ctx context.Context) (report.Result, error) {
			<-ctx.Done()
			return succeed(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, d := bare(t, func(ctx context.Context, _ report.Event) (report.Result, error) { return r(ctx) })
				if result, err := c.attempt(d); err != nil || string(result) != `{"pages":12}` {
					t.Errorf("the attempt returned %s, %v", result, err)
				}
			})
		})
	}
}

// The attempts of a goroutine have a time each, whatever became of those before, and whether or not their handlers look at it.
func TestAttemptsInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var blocks atomic.Bool
		release := make(chan struct{})
		defer close(release)
		c, d := bare(t, func(ctx context.Context, _ report.Event) (report.Result, error) {
			if blocks.Load() {
				<-release
			}
			return succeed(ctx)
		})
		for n, blocked := range []bool{false, true, true, false, true, false} {
			blocks.Store(blocked)
			began := time.Now()
			_, err := c.attempt(d)
			if took := time.Since(began); (err != nil) != blocked || blocked != (took == c.cfg.AttemptTimeout+c.handlerGrace()) {
				t.Errorf("attempt %d, blocked %v: it returned %v after %v", n+1, blocked, err, took)
			}
		}
	})
}

// A handler that does not return after its context has ended is judged without it: a time-out, or a cut if the worker stops.
func TestAttemptNeverReturns(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"time-out": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				c, d := bare(t, func(ctx context.Context, _ report.Event) (report.Result, error) {
					<-release
					return succeed(ctx)
				})
				if stopped {
					c.cut()
				}
				_, err := c.attempt(d)
				switch fault := report.Classify(err); {
				case stopped != errors.Is(err, errCut):
					t.Errorf("the attempt returned %v", err)
				case !stopped && (fault.Kind != report.KindTransient || fault.Code != report.CodeTimeout):
					t.Errorf("the attempt returned %v %s %v, want a transient time-out", fault.Kind, fault.Code, err)
				}
				select {
				case <-d.stuck:
					t.Error("the handler counts as returned")
				default:
				}
				close(release)
				<-d.stuck
			})
		})
	}
}

// No result stands for an empty one.
func TestNilResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {func(context.Context) (report.Result, error) { return nil, nil }}})
	w.publish("A")
	w.start()
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A").Result; string(got) != `{}` {
		t.Errorf("the ledger has the result %s, want {}", got)
	}
}
