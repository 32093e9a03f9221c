package consumer

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// limit bounds what a stream takes; -1 lifts the bound.
func (w *world) limit(name string, messages int64) {
	w.Helper()
	s, err := w.js.Stream(context.Background(), name)
	if err != nil {
		w.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = messages
	if _, err := w.js.UpdateStream(context.Background(), cfg); err != nil {
		w.Fatal(err)
	}
}

// attempted counts what is published on a subject, refused or not.
func (w *world) attempted(subject string) *atomic.Int64 {
	w.Helper()
	n := new(atomic.Int64)
	nc := w.srv.Conn(w)
	if _, err := nc.Subscribe(subject, func(*nats.Msg) { n.Add(1) }); err != nil {
		w.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		w.Fatal(err)
	}
	return n
}

// awaitPause waits until a worker has paused its intake and no pull of it is open any more.
func (w *world) awaitPause(k *worker) {
	w.Helper()
	natstest.Eventually(w, "intake to pause", func() bool { return k.gate.isShut() && k.pullsNothing() })
}

// pullsNothing reports whether every slot that has no report in hand is free: a pull owns one, also while it is on its way.
func (k *worker) pullsNothing() bool {
	free := int64(k.cfg.Workers - len(k.hand.all()))
	if !k.slots.free.TryAcquire(free) {
		return false
	}
	k.slots.free.Release(free)
	return true
}

// pulling counts the open pulls of workers; -1 if the server does not say.
func (w *world) pulling() (n int) {
	for _, name := range stream.Names() {
		s, err := w.queues().State(context.Background(), name)
		if err != nil {
			return -1
		}
		n += s.Pulling
	}
	return n
}

// While letters or deaths cannot be written, nothing is let go and nothing fresh is begun; publishers go on. Then everything
// is buried with its real verdict.
func TestNoRoomForTheDead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ full, subject string }{
		{dlq.Stream, "reports.dlq.>"},
		{audit.Stream, "reports.audit.>"},
	} {
		t.Run(tt.full, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"FULL": {poison}, "P": {poison}, "Q": {poison}, "R": times(4, fail), "A": {succeed}, "B": {succeed}})
			w.limit(tt.full, 1)
			w.publish("FULL")
			k := w.start()
			w.await("FULL", Buried)
			w.publish("P", "Q", "R")
			w.awaitPause(k)

			tries := w.attempted(tt.subject)
			w.publish("A", "B")
			natstest.Eventually(t, "more tries", func() bool { return tries.Load() >= 5 })
			if a, b := w.ran("A"), w.ran("B"); a+b > 0 {
				t.Errorf("fresh reports were begun: A %d, B %d times", a, b)
			}
			if s, err := w.queues().State(t.Context(), stream.Reports); err != nil || s.Stored != 5 {
				t.Errorf("queue is %+v (%v), want all 5 to be stored", s, err)
			}

			w.limit(tt.full, -1)
			w.check(invariant.Tally{Done: 2, Dead: 4})
			for site, want := range map[string]dlq.Letter{
				"P": {Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "no trailer", Attempts: 1},
				"Q": {Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "no trailer", Attempts: 1},
				"R": {Class: report.ClassExhausted, Code: report.CodeServerError, Reason: "exhausted 4 attempts: 503", Attempts: 4},
			} {
				w.checkLetter(site, want)
				if got := w.ran(site); got != want.Attempts {
					t.Errorf("the handler ran %d times for %s, want %d", got, site, want.Attempts)
				}
			}
		})
	}
}

// A slot that becomes free while intake is paused begins nothing, although somebody waited for it before.
func TestFreeSlotWhilePaused(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 2
	var (
		judge, finish = make(chan struct{}), make(chan struct{})
		healed        atomic.Bool
	)
	w := newWorld(t, cfg, script{
		"FULL": {poison},
		"P":    {func(ctx context.Context) (report.Result, error) { <-judge; return poison(ctx) }},
		"H":    {func(ctx context.Context) (report.Result, error) { <-finish; return succeed(ctx) }},
		"A": {func(ctx context.Context) (report.Result, error) {
			if !healed.Load() {
				t.Error("a fresh report was begun while intake was paused")
			}
			return succeed(ctx)
		}},
	})
	w.limit(dlq.Stream, 1)
	w.publish("FULL")
	k := w.start()
	w.await("FULL", Buried)
	w.publish("P", "H", "A")
	natstest.Eventually(t, "both slots to be taken", func() bool { return w.ran("P")+w.ran("H") == 2 })
	close(judge)
	natstest.Eventually(t, "intake to pause", k.gate.isShut)
	tries := w.attempted("reports.dlq.>")
	close(finish)
	w.await("H", Succeeded)
	natstest.Eventually(t, "more tries", func() bool { return tries.Load() >= 3 })
	healed.Store(true)
	w.limit(dlq.Stream, -1)
	w.check(invariant.Tally{Done: 2, Dead: 2})
}

// A worker is stopped while a verdict cannot be written: the verdict travels with the report, even over a second stop, and
// a later worker buries it without running it again.
func TestVerdictTravels(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		full   string
		script []run
		want   dlq.Letter
	}{
		"poison": {dlq.Stream, []run{poison},
			dlq.Letter{Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "no trailer", Attempts: 1}},
		"exhausted": {dlq.Stream, times(4, fail),
			dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: "exhausted 4 attempts: 503", Attempts: 4}},
		"unrecorded": {audit.Stream, times(4, fail),
			dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: "exhausted 4 attempts: 503", Attempts: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, steady(), script{"FULL": {poison}, "A": tt.script})
			w.limit(tt.full, 1)
			w.publish("FULL")
			filler := w.start()
			w.await("FULL", Buried)
			w.publish("A")
			natstest.Eventually(t, "A to be stuck", filler.gate.isShut)
			source := w.stored(stream.Reports)

			for range 2 { // the second worker gets the handed-back copy
				k := w.workers[len(w.workers)-1]
				natstest.Eventually(t, "A to be stuck", k.gate.isShut)
				if err := k.end(); err != nil {
					t.Errorf("Run: %v", err)
				}
				copied := w.stored(stream.Requeued)
				v := copied.Carried.Verdict
				if v == nil || v.Class != tt.want.Class || v.Code != tt.want.Code || v.Reason != tt.want.Reason || v.FailedAt.IsZero() {
					t.Fatalf("the copy carries the verdict %+v, want %+v", v, tt.want)
				}
				if copied.Carried.Attempts != tt.want.Attempts || copied.Identity != source.Ref || !copied.PublishedAt.Equal(source.PublishedAt) {
					t.Errorf("the copy is of %v at %v after %d attempts, want %v at %v after %d", copied.Identity, copied.PublishedAt,
						copied.Carried.Attempts, source.Ref, source.PublishedAt, tt.want.Attempts)
				}
				w.start()
			}
			w.limit(tt.full, -1)
			w.check(invariant.Tally{Dead: 2})
			w.checkLetter("A", tt.want)
			if got := w.ran("A"); got != tt.want.Attempts {
				t.Errorf("the handler ran %d times, want %d", got, tt.want.Attempts)
			}
			if l := w.letter("A"); l.Source != source.Ref || string(l.Body) != string(payload("A")) {
				t.Errorf("letter is about %v with body %s, want %v", l.Source, l.Body, source.Ref)
			}
		})
	}
}

// stored is the one message that a queue holds.
func (w *world) stored(name string) stream.Message {
	w.Helper()
	m, err := w.queues().Next(context.Background(), name, 1)
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// An undecodable event that meets a full dead-letter queue and a stop keeps its body and its key.
func TestUndecodableVerdictTravels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steady(), script{"FULL": {poison}})
	w.limit(dlq.Stream, 1)
	w.publish("FULL")
	k := w.start()
	w.await("FULL", Buried)
	m := w.publishRaw("x", nats.Header{"X-Firm": {"Acme"}}, []byte(`{"site_id":"A","site_id":"B"}`))
	natstest.Eventually(t, "it to be stuck", k.gate.isShut)
	if err := k.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	w.limit(dlq.Stream, -1)
	w.start()
	w.check(invariant.Tally{Dead: 2})
	l, err := w.letters().Current(t.Context(), report.NoSite, m.Key)
	if err != nil {
		t.Fatal(err)
	}
	if l.Code != report.CodeUndecodable || l.Attempts != 0 || string(l.Body) != string(m.Body) || l.Foreign.Get("X-Firm") != "Acme" || l.Source != m.Ref {
		t.Errorf("letter is %+v", l)
	}
}
