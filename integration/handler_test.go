package integration_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
)

// object is a result of exactly so many bytes.
func object(size int) report.Result {
	return report.Result(`{"x":"` + strings.Repeat("x", size-8) + `"}`)
}

func TestHandlerFaults(t *testing.T) {
	t.Parallel()
	var none map[string]int
	faults := []struct {
		uri    string
		handle func() (report.Result, error)
		code   report.Code
		reason string
	}{
		{"panic", func() (report.Result, error) { panic("line one\nline two") }, report.CodePanic, "panic: line one line two"},
		{"panic with an error", func() (report.Result, error) { panic(report.Transient("timeout", errors.New("slow"))) }, report.CodePanic, "panic: slow"},
		{"panic with nil", func() (report.Result, error) { panic(nil) }, report.CodePanic, "panic: panic called with nil argument"},
		{"nil map", func() (report.Result, error) { none["x"] = 1; return nil, nil }, report.CodePanic, "panic: assignment to entry in nil map"},
		{"ends its goroutine", func() (report.Result, error) { runtime.Goexit(); return nil, nil }, report.CodePanic, "panic: the handler ended its goroutine"},
		{"too large", func() (report.Result, error) { return object(65 << 10), nil }, report.CodeResultTooLarge, "the result has 66560 bytes, at most 65536 are allowed"},
		{"a byte too large", func() (report.Result, error) { return object(64<<10 + 1), nil }, report.CodeResultTooLarge, "the result has 65537 bytes, at most 65536 are allowed"},
		{"a list", func() (report.Result, error) { return report.Result(`[1]`), nil }, report.CodeInvalidResult, `the result is not a JSON object: "[1]"`},
		{"no JSON", func() (report.Result, error) { return report.Result("{\x00"), nil }, report.CodeInvalidResult, `the result is not a JSON object: "{\x00"`},
		{"empty", func() (report.Result, error) { return report.Result{}, nil }, report.CodeInvalidResult, `the result is not a JSON object: ""`},
		{"result and error", func() (report.Result, error) { return object(100), report.Poison("no-pages", errors.New("no pages")) }, "no-pages", "no pages"},
	}
	w := newWorld(t, func(_ context.Context, e report.Event, _ int) (report.Result, error) {
		for _, f := range faults {
			if f.uri == e.SourceURI {
				return f.handle()
			}
		}
		return object(64 << 10), nil
	})
	var keys []report.Key
	for _, f := range faults {
		keys = append(keys, w.publish("TWR-1", f.uri))
	}
	largest := w.publish("TWR-1", "the largest result")
	w.work()
	w.drain()
	for i, f := range faults {
		w.wantDeath(w.letter(keys[i]), death{report.ClassPoison, f.code, f.reason, 1, 0})
		w.wantRuns(keys[i], 1)
	}
	if e := w.entry(largest); len(e.Result) != report.MaxResult {
		t.Errorf("the result in the ledger has %d bytes, want %d", len(e.Result), report.MaxResult)
	}
	w.ends(invariant.Tally{Done: 1, Dead: len(faults)})
}

// A handler that hangs until its time is over has had one attempt, whatever it then says.
func TestHandlerHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if run > 1 {
			return nil, nil
		}
		<-ctx.Done()
		switch e.SourceURI {
		case "context":
			return nil, ctx.Err()
		case "cause":
			return nil, context.Cause(ctx)
		case "own words":
			return nil, errors.New("gave up")
		case "own verdict":
			return nil, report.Poison(report.CodeKilledTime, errors.New("it would never end"))
		}
		return object(10), nil // late, but a result
	}, func(cfg *consumer.Config) { cfg.AttemptTimeout = 10 * time.Second })
	passing := []report.Key{w.publish("TWR-1", "context"), w.publish("TWR-1", "cause"), w.publish("TWR-1", "own words")}
	verdict := w.publish("TWR-1", "own verdict")
	late := w.publish("TWR-1", "late")
	w.work()
	w.drain()
	w.stop()
	for _, key := range passing {
		w.wantRuns(key, 2)
		if e := w.entry(key); e.Attempts != 2 {
			t.Errorf("the ledger says %d attempts, want 2", e.Attempts)
		}
		if failed := w.events(key, audit.AttemptFailed); len(failed) != 1 || failed[0].Code != report.CodeTimeout {
			t.Errorf("the trail has %+v, want one time-out", failed)
		}
	}
	w.wantDeath(w.letter(verdict), death{report.ClassPoison, report.CodeKilledTime, "it would never end", 1, 0})
	if e := w.entry(late); e.Attempts != 1 {
		t.Errorf("the late result was committed after %d attempts, want 1", e.Attempts)
	}
	w.ends(invariant.Tally{Done: 4, Dead: 1})
}
