package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Twenty shutdowns in the middle of a batch: being stopped spends no attempt and dead-letters nothing.
func TestTwentyShutdowns(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = 30 * time.Second // what is lost to a shutdown would not come back in this test
	cfg.StopGrace = 0
	w := newWorld(t, cfg, script{})
	var (
		held     atomic.Int64 // running until they are cut
		released = make(chan struct{})
	)
	hold := func(ctx context.Context) (report.Result, error) {
		held.Add(1)
		defer held.Add(-1)
		select {
		case <-ctx.Done():
			return poison(ctx)
		case <-released:
			return succeed(ctx)
		}
	}
	want := invariant.Tally{}
	for i := range 60 {
		switch site := fmt.Sprintf("R%02d", i); {
		case i%10 == 3:
			w.script[site] = times(21, hold)
			want.Done++
		case i%10 == 5:
			w.script[site] = times(24, fail) // four, and one for each shutdown that may meet it
			want.Dead++
		case i%10 == 7:
			w.script[site] = times(21, poison)
			want.Dead++
		default:
			w.script[site] = times(21, succeed)
			want.Done++
		}
	}
	for i := range 60 {
		w.publish(fmt.Sprintf("R%02d", i))
	}
	for round := range 20 {
		k := w.open()
		k.slots, k.cfg.Workers = newSlots(4+round%4), 4+round%4 // six reports are held: in half of the rounds some slots stay free
		w.run(k)
		natstest.Eventually(t, "reports to be held", func() bool { return held.Load() == int64(min(k.cfg.Workers, 6)) })
		if err := k.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	close(released)
	w.start()
	w.check(want)
	for site := range w.script {
		w.checkAttempts(site)
	}
}

// checkAttempts checks that of a report's runs only those count which no stop has cut.
func (w *world) checkAttempts(site string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, o := range w.outcomes[site] {
		if o.Kind != HandedBack {
			got = append(got, fmt.Sprint(o.Kind, " ", o.Attempts))
		}
	}
	want := []string{"succeeded 1"}
	switch {
	case strings.HasSuffix(site, "5"):
		want = []string{"retried 1", "retried 2", "retried 3", "buried 4"}
	case strings.HasSuffix(site, "7"):
		want = []string{"buried 1"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("outcomes of %s (-want +got):\n%s", site, diff)
	}
}

// A stopping worker lets what is running end within its grace.
func TestStopWaitsForRunning(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	cfg := steady()
	cfg.StopGrace = time.Hour
	w := newWorld(t, cfg, script{"A": {func(ctx context.Context) (report.Result, error) {
		select {
		case <-release:
			return succeed(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}})
	w.publish("A")
	k := w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	k.stop()
	natstest.Eventually(t, "its last pulls to end", func() bool { return w.pulling() == 0 })
	close(release)
	w.await("A", Succeeded)
	w.check(invariant.Tally{Done: 1})
}

// The second stage of a stop cuts what is running.
func TestCut(t *testing.T) {
	t.Parallel()
	cfg := steady()
	cfg.StopGrace = time.Hour
	w := newWorld(t, cfg, script{"A": {untilCut, succeed}})
	w.publish("A")
	k := w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	k.stop()
	k.Cut()
	if err := k.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if got := w.saw("A", HandedBack); got != 1 {
		t.Errorf("handed back %d times, want once", got)
	}
	if s, err := w.queues().State(t.Context(), stream.Reports); err != nil || s.Stored != 0 {
		t.Errorf("the queue holds %d (%v), want none: the copy stands for it", s.Stored, err)
	}
	w.start()
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A").Attempts; got != 1 {
		t.Errorf("the ledger counts %d attempts, want 1", got)
	}
}

// A result that a handler returns although its context was cut is committed.
func TestResultAfterTheCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {func(ctx context.Context) (report.Result, error) {
		<-ctx.Done()
		return succeed(ctx)
	}}})
	w.publish("A")
	k := w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	k.stop()
	k.Cut()
	w.check(invariant.Tally{Done: 1})
	if w.saw("A", Succeeded) != 1 || w.saw("A", HandedBack) != 0 {
		t.Error("the result was not committed, or the report was handed back as well")
	}
}

// Whatever kind of error, or panic, ends an attempt that a stop has cut: it is no verdict.
func TestErrorAfterTheCut(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]run{
		"poison":    func(ctx context.Context) (report.Result, error) { return poison(ctx) },
		"transient": func(ctx context.Context) (report.Result, error) { return fail(ctx) },
		"hold": func(context.Context) (report.Result, error) {
			return nil, report.Hold(report.CodeForbidden, errors.New("403"))
		},
		"own":    func(ctx context.Context) (report.Result, error) { return nil, ctx.Err() },
		"panic":  func(context.Context) (report.Result, error) { panic("cut") },
		"result": func(context.Context) (report.Result, error) { return report.Result(`[]`), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, d := bare(t, func(ctx context.Context, _ report.Event) (report.Result, error) {
				<-ctx.Done()
				return r(ctx)
			})
			c.cut()
			if _, err := c.attempt(d); !errors.Is(err, errCut) {
				t.Errorf("attempt returned %v, want %v", err, errCut)
			}
		})
	}
}

// The fence refuses the copy of a report that is handed back if there is one already. If that is our own, of an earlier try, the
// message is let go; beside another, for instance of a replay, it stays and is worked again.
func TestHandBackIsFenced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		own  bool
		kind Kind
		left uint64 // in the publishers' queue
		said string
	}{"by a replay": {false, LeftAlone, 1, "-NAK"}, "by our own copy": {true, HandedBack, 0, "+ACK"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := steady()
			cfg.Workers = 1
			cfg.StopGrace = 0
			w := newWorld(t, cfg, script{"A": {untilCut, succeed, succeed}})
			w.publish("A")
			m := w.stored(stream.Reports)
			said := w.listen()
			k := w.start()
			natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
			copied := stream.Carried{PublishedAt: m.PublishedAt, Replays: 1, ReplayOf: 7}
			if tt.own {
				copied = stream.Carried{PublishedAt: m.PublishedAt, StandsFor: m.Ref}
			}
			if err := w.queues().Requeue(t.Context(), m.Site, m.Key, nil, m.Body, copied, 0); err != nil {
				t.Fatal(err)
			}
			if err := k.end(); err != nil {
				t.Errorf("Run: %v", err)
			}
			if got := w.saw("A", tt.kind); got != 1 {
				t.Errorf("%s %d times, want once", tt.kind, got)
			}
			if s, err := w.queues().State(t.Context(), stream.Reports); err != nil || s.Stored != tt.left {
				t.Errorf("the queue holds %d (%v), want %d", s.Stored, err, tt.left)
			}
			natstest.Eventually(t, "the worker to say "+tt.said, func() bool { return said.count(tt.said) == 1 })
			w.start()
			w.check(invariant.Tally{Done: 1})
		})
	}
}

// A report that somebody else has settled meanwhile, as after a restart of the server, is not handed back: what an operator has
// done with its letter since would be undone.
func TestNothingSettledIsHandedBack(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.StopGrace = 0
	cfg.Queues.AckWait = time.Hour // this worker takes the report for its own
	w := newWorld(t, cfg, script{"A": {untilCut}})
	w.publish("A")
	m := w.stored(stream.Reports)
	k := w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	l := w.putLetter(m, report.ClassPoison, "not a PDF")
	if err := w.letters().RecordDeath(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := w.queues().Delete(t.Context(), m.Ref); err != nil {
		t.Fatal(err)
	}
	if _, err := w.letters().Discard(t.Context(), l.Sequence, dlq.By{Actor: "test", Reason: "hopeless"}); err != nil {
		t.Fatal(err)
	}
	if err := k.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if got := w.saw("A", LeftAlone); got != 1 {
		t.Errorf("left alone %d times, want once", got)
	}
	w.check(invariant.Tally{Discarded: 1})
}
