package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
)

// failsUntil names a report by the run that succeeds.
func failsUntil(n int) string { return fmt.Sprintf("s3://reports/at-%d.pdf", n) }

func TestTransientThenSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SourceURI == failsUntil(run) {
			return report.NewResult(map[string]int{"run": run})
		}
		return nil, report.Transient(report.CodeTimeout, fmt.Errorf("run %d timed out", run))
	})
	keys := map[int]report.Key{}
	for n := 1; n <= 4; n++ {
		keys[n] = w.publish("TWR-1", failsUntil(n))
	}
	w.work()
	w.drain()
	w.stop()
	for n, key := range keys {
		w.wantRuns(key, n)
		if e := w.entry(key); e.Attempts != n || string(e.Result) != fmt.Sprintf(`{"run":%d}`, n) || e.Worker != "worker-1" {
			t.Errorf("success at run %d: the ledger says %d attempts, result %s, by %s", n, e.Attempts, e.Result, e.Worker)
		}
		failed := w.events(key, audit.AttemptFailed)
		if len(failed) != n-1 {
			t.Errorf("success at run %d: the trail has %d failed attempts", n, len(failed))
		}
		for i, e := range failed {
			if want := fmt.Sprintf("run %d timed out", i+1); e.Attempt != i+1 || e.Code != report.CodeTimeout || e.Reason != want {
				t.Errorf("failed attempt %d is recorded as %d %s %q", i+1, e.Attempt, e.Code, e.Reason)
			}
		}
	}
	w.ends(invariant.Tally{Done: 4})
}

func TestPoisonRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(context.Context, report.Event, int) (report.Result, error) {
		return nil, report.Poison(report.CodeEncrypted, errors.New("a password is needed"))
	})
	key := w.publish("TWR-1", "s3://reports/locked.pdf")
	w.work()
	l := w.dies(key, 0)
	w.wantDeath(l, death{report.ClassPoison, report.CodeEncrypted, "a password is needed", 1, 0})
	if !l.FirstFailedAt.Equal(l.FailedAt) || l.Upstream != "s3://reports" || l.Subject != "reports.submitted.TWR-1" {
		t.Errorf("letter: %+v", l)
	}
	w.wantRuns(key, 1)
	w.ends(invariant.Tally{Dead: 1})
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	codes := []report.Code{report.CodeTimeout, report.CodeConnection, report.CodeThrottled, report.CodeServerError}
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		return nil, report.Transient(codes[min(run, 4)-1], fmt.Errorf("run %d failed", run))
	})
	key := w.publish("TWR-1", "s3://reports/never.pdf")
	w.work()
	l := w.dies(key, 0)
	w.wantDeath(l, death{report.ClassExhausted, report.CodeServerError, "exhausted 4 attempts: run 4 failed", 4, 0})
	w.wantRuns(key, 4)
	failed := w.events(key, audit.AttemptFailed)
	if len(failed) != 3 || !l.FirstFailedAt.Equal(failed[0].Time) || !l.FirstFailedAt.Before(l.FailedAt) {
		t.Errorf("first failed at %v, failed at %v, of %d failed attempts", l.FirstFailedAt, l.FailedAt, len(failed))
	}
	w.ends(invariant.Tally{Dead: 1})
}

// An error of which nobody said what kind it is gets no second run; one that is known to pass gets it.
func TestErrorsWithoutAKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		switch {
		case e.SourceURI == "s3://reports/unknown.pdf":
			return nil, errors.New("it went wrong")
		case e.SourceURI == "s3://reports/bad-code.pdf":
			return nil, report.Poison("Not A Code", errors.New("it went wrong"))
		case run == 1:
			return nil, fmt.Errorf("read: %w", context.DeadlineExceeded)
		}
		return nil, nil
	})
	unknown := w.publish("TWR-1", "s3://reports/unknown.pdf")
	badCode := w.publish("TWR-1", "s3://reports/bad-code.pdf")
	slow := w.publish("TWR-1", "s3://reports/slow.pdf")
	w.work()
	w.drain()
	for _, key := range []report.Key{unknown, badCode} {
		w.wantDeath(w.letter(key), death{report.ClassPoison, report.CodeUnclassified, "it went wrong", 1, 0})
		w.wantRuns(key, 1)
	}
	w.wantRuns(slow, 2)
	w.ends(invariant.Tally{Done: 1, Dead: 2})
}

// What a source asked for is what the next attempt waits for, unless that is too long.
func TestDelays(t *testing.T) {
	t.Parallel()
	asked := map[string]error{
		"asked":    report.RetryAfter(30*time.Millisecond, report.CodeThrottled, errors.New("busy")),
		"too long": report.RetryAfter(time.Hour, report.CodeThrottled, errors.New("busy")),
		"nothing":  report.RetryAfter(0, report.CodeThrottled, errors.New("busy")),
		"held":     report.Hold(report.CodeForbidden, errors.New("our key is wrong")),
	}
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if run <= 2 {
			return nil, asked[e.SourceURI]
		}
		return nil, nil
	}, func(cfg *consumer.Config) { cfg.Backoff.Jitter = 0 })
	want := map[string][]string{
		"asked": {"30ms", "30ms"}, "too long": {"50ms", "50ms"}, "nothing": {"10ms", "20ms"}, "held": {"50ms", "50ms"},
	}
	keys := map[string]report.Key{}
	for uri := range asked {
		keys[uri] = w.publish("TWR-1", uri)
	}
	w.work()
	w.drain()
	w.stop() // which flushes what was written to the trail without waiting
	got := map[string][]string{}
	for uri, key := range keys {
		w.wantRuns(key, 3)
		for _, e := range w.events(key, audit.AttemptFailed) {
			got[uri] = append(got[uri], e.Delay)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	w.ends(invariant.Tally{Done: 4})
}
