package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// makeAnew deletes a queue and makes it anew.
func (w *world) makeAnew(queue string) {
	w.Helper()
	if err := w.js.DeleteStream(w.Context(), queue); err != nil {
		w.Fatal(err)
	}
	if err := stream.Setup(w.Context(), w.js, w.cfg.Queues); err != nil {
		w.Fatal(err)
	}
}

// The queue is deleted and made anew while a report is in hand, so that another one gets its sequence. What becomes of the first says nothing
// to the server about the second.
func TestQueueMadeAnewUnderAReport(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first run
		kind  Kind
		want  invariant.Tally
	}{
		"lands":                 {succeed, Succeeded, invariant.Tally{Done: 2}},
		"fails":                 {fail, Retried, invariant.Tally{Done: 1}}, // it has left with the queue
		"dies":                  {poison, Buried, invariant.Tally{Done: 1, Dead: 1}},
		"has its upstream down": {refuse, LeftAlone, invariant.Tally{Done: 1}}, // and so has the other then
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, attempts := quick(), 2
			cfg.Queues.AckWait = time.Hour
			if tt.kind == LeftAlone {
				cfg.ParkMax, attempts = cfg.AttemptTimeout, 1
			}
			settle, settled, started := make(chan struct{}), make(chan struct{}), make(chan struct{})
			w := newWorld(t, cfg, script{
				"A": {func(ctx context.Context) (report.Result, error) {
					<-settle
					return tt.first(ctx)
				}},
				"B": {func(ctx context.Context) (report.Result, error) {
					close(started)
					<-settled
					return fail(ctx)
				}, succeed},
			})
			w.publish("A")
			w.start()
			natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
			w.makeAnew(stream.Reports)
			w.publish("B")
			awaitClosed(t, "B to be in work", started)
			close(settle)
			w.await("A", tt.kind)
			close(settled)
			if tt.want.Done+tt.want.Dead == 1 {
				w.keys = w.keys[1:]
			}
			w.await("B", Succeeded)
			w.check(tt.want)
			if got := w.entry("B").Attempts; got != attempts {
				t.Errorf("B took %d attempts, want %d", got, attempts)
			}
		})
	}
}

// A worker whose slots are all in use is stopped before it has learnt that the queue was made anew. It hands nothing back then: the ack would
// remove another report, which is in work elsewhere and fails.
func TestStopAfterTheQueueWasMadeAnew(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers, cfg.StopGrace, cfg.Queues.AckWait = 1, 0, time.Hour
	settle, started := make(chan struct{}), make(chan struct{})
	w := newWorld(t, cfg, script{"A": {untilCut}, "B": {func(ctx context.Context) (report.Result, error) {
		close(started)
		<-settle
		return fail(ctx)
	}, succeed}})
	w.publish("A")
	first := w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 })
	w.makeAnew(stream.Reports)
	w.publish("B")
	w.start()
	awaitClosed(t, "B to be in work", started)
	if err := first.end(); err != nil {
		t.Error(err)
	}
	close(settle)
	w.await("B", Succeeded)
	w.keys = w.keys[1:] // A has left with the queue
	w.check(invariant.Tally{Done: 1})
	if got := w.saw("A", LeftAlone); got != 1 {
		t.Errorf("the outcomes of A are %+v", w.outcomes["A"])
	}
}

// Only what the consumer delivered before it was made anew is given up, not what the new one has delivered since.
func TestDisown(t *testing.T) {
	t.Parallel()
	made := time.Now()
	before, after := made.Add(-time.Second), made.Add(time.Second)
	for name, tt := range map[string]struct {
		queue         string
		stored, since time.Time
		want          bool
	}{
		"delivered before":                    {stream.Reports, before, before, true},
		"came too late to tell":               {stream.Reports, before, time.Time{}, true},
		"stored before, delivered by the new": {stream.Reports, before, after, false},
		"stored since":                        {stream.Reports, after, before, false},
		"of the other queue":                  {stream.Requeued, before, before, false},
	} {
		d := &delivery{Message: stream.Message{Ref: stream.Ref{Stream: tt.queue, Sequence: 1}}, stored: tt.stored, since: tt.since}
		var h hand
		h.add(d)
		h.disown(stream.Reports, made)
		if d.disowned != tt.want {
			t.Errorf("%s: given up %v, want %v", name, d.disowned, tt.want)
		}
	}
}
