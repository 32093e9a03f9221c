package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// The server is restarted in the middle of a batch, more than once.
func TestServerRestartsWhileWorking(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	want := invariant.Tally{}
	for i := range 90 {
		runs := times(10, succeed) // what is redelivered may run twice
		switch i % 5 {
		case 0:
			runs[0] = fail
		case 1:
			runs = times(10, poison)
			want.Dead++
		}
		w.script[fmt.Sprint("R", i)] = runs
	}
	want.Done = 90 - want.Dead
	begin := func(from int) {
		for i := range 30 {
			w.publish(fmt.Sprint("R", from+i))
		}
	}
	begin(0)
	w.start()
	for from := 30; from < 90; from += 30 {
		begin(from)
		w.await(fmt.Sprint("R", from-26), Succeeded) // it is in the middle of what was published
		w.srv.Restart(t)
	}
	w.check(want)
	for site := range w.script {
		if got := w.saw(site, Succeeded); got > 1 {
			t.Errorf("%s succeeded %d times", site, got)
		}
	}
}

// A consumer that was deleted and set up again delivers everything anew; the worker finds it and goes on.
func TestConsumerCreatedAnew(t *testing.T) {
	t.Parallel()
	for _, queue := range stream.Names() {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": {succeed}, "B": {succeed}, "C": {succeed}})
			w.publish("A")
			w.start()
			w.await("A", Succeeded)
			if err := w.js.DeleteConsumer(t.Context(), queue, stream.Consumer); err != nil {
				t.Fatal(err)
			}
			if queue == stream.Requeued { // the other queue is not disturbed
				w.publish("B")
				w.await("B", Succeeded)
			}
			if err := Setup(t.Context(), w.js, w.cfg.Queues); err != nil {
				t.Fatal(err)
			}
			if queue == stream.Reports {
				w.publish("B")
			}
			w.requeue("C", stream.Carried{})
			w.check(invariant.Tally{Done: 3})
		})
	}
}

// A worker that has no pull open while the consumer is made anew looks for a letter, although the next delivery is counted as the first one.
func TestConsumerCreatedAnewUnseen(t *testing.T) {
	t.Parallel()
	for _, queue := range stream.Names() {
		for _, busy := range stream.Names() { // with a report of the same queue, or of the other: it has had none of this one
			t.Run(queue+", busy with "+busy, func(t *testing.T) {
				t.Parallel()
				cfg := quick()
				cfg.Workers = 1
				cfg.Queues.AckWait = time.Minute
				release := make(chan struct{})
				w := newWorld(t, cfg, script{"A": {poison, succeed}, "HELD": {func(ctx context.Context) (report.Result, error) {
					<-release
					return succeed(ctx)
				}}})
				put := func(queue, site string) {
					if queue == stream.Reports {
						w.publish(site)
					} else {
						w.requeue(site, stream.Carried{})
					}
				}
				put(queue, "A")
				died := w.start(dyingAt("7c letter"))
				natstest.Eventually(t, "the first worker to die", died.nc.IsClosed)
				pulls := w.attempted("$JS.API.CONSUMER.MSG.NEXT." + queue + "." + stream.Consumer)
				w.start()
				natstest.Eventually(t, "another to pull", func() bool { return pulls.Load() > 0 })
				put(busy, "HELD")
				natstest.Eventually(t, "it to be busy", func() bool { return w.ran("HELD") == 1 })
				if err := w.js.DeleteConsumer(t.Context(), queue, stream.Consumer); err != nil {
					t.Fatal(err)
				}
				if err := Setup(t.Context(), w.js, w.cfg.Queues); err != nil {
					t.Fatal(err)
				}
				close(release)
				w.check(invariant.Tally{Dead: 1, Done: 1})
				if got := w.ran("A"); got != 1 {
					t.Errorf("the handler ran %d times, want 1", got)
				}
				if got := w.events(w.letter("A").Key, audit.Death); len(got) != 1 {
					t.Errorf("the trail has deaths %+v, want one", got)
				}
			})
		}
	}
}

// A consumer that was created anew with other settings ends the worker.
func TestConsumerDrifts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	k := w.start()
	if err := w.js.DeleteConsumer(t.Context(), stream.Reports, stream.Consumer); err != nil {
		t.Fatal(err)
	}
	other := w.cfg.Queues
	other.MaxAttempts++
	if err := stream.Setup(t.Context(), w.js, other); err != nil {
		t.Fatal(err)
	}
	awaitClosed(t, "Run to return", k.returned)
	if !errors.Is(k.err, stream.ErrDrift) || !strings.Contains(k.err.Error(), "MaxDeliver is 7") {
		t.Errorf("Run returned %v, want %v with the numbers", k.err, stream.ErrDrift)
	}
	w.workers = nil
	w.check(invariant.Tally{})
}

// A connection that is closed for good ends the worker, whatever is in hand.
func TestConnectionClosed(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]run{"succeeds": succeed, "fails": fail, "poison": poison} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{})
			k := w.open()
			w.script["A"] = []run{
				func(ctx context.Context) (report.Result, error) {
					k.nc.Close()
					return r(ctx)
				},
				succeed,
			}
			w.publish("A")
			w.run(k)
			awaitClosed(t, "Run to return", k.returned)
			if k.err == nil || !strings.Contains(k.err.Error(), "the connection is closed for good") || !errors.Is(k.err, nats.ErrConnectionClosed) {
				t.Errorf("Run returned %v, want %v", k.err, nats.ErrConnectionClosed)
			}
			w.start()
			w.check(invariant.Tally{Done: 1})
		})
	}
}

// Run returns nil when its context ends, for whatever cause.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	for name, end := range map[string]func(context.Context) context.Context{
		"cancelled": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		},
		"with a cause": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("another part of the program has failed"))
			return ctx
		},
		"deadline": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, 0)
			t.Cleanup(cancel)
			return ctx
		},
	} {
		if err := w.open().Run(end(t.Context())); err != nil {
			t.Errorf("%s: Run returned %v, want nil", name, err)
		}
	}
}

// A worker does not start without everything that it needs, least of all a place for the dead.
func TestOpenNeedsEverything(t *testing.T) {
	t.Parallel()
	open := func(w *world, cfg Config) error {
		_, err := Open(t.Context(), w.js, w.handle, cfg, slog.New(slog.DiscardHandler))
		return err
	}
	ctx := context.Background()
	for _, tt := range []struct {
		name   string
		remove func(jetstream.JetStream) error
	}{
		{dlq.Stream, func(js jetstream.JetStream) error { return js.DeleteStream(ctx, dlq.Stream) }},
		{audit.Stream, func(js jetstream.JetStream) error { return js.DeleteStream(ctx, audit.Stream) }},
		{stream.Reports, func(js jetstream.JetStream) error { return js.DeleteStream(ctx, stream.Reports) }},
		{stream.Requeued, func(js jetstream.JetStream) error { return js.DeleteStream(ctx, stream.Requeued) }},
		{"ledger", func(js jetstream.JetStream) error { return js.DeleteKeyValue(ctx, "reports_ledger") }},
		{"sites", func(js jetstream.JetStream) error { return js.DeleteKeyValue(ctx, "reports_sites") }},
		{"turns", func(js jetstream.JetStream) error { return js.DeleteKeyValue(ctx, "reports_turns") }},
		{"consumer", func(js jetstream.JetStream) error { return js.DeleteConsumer(ctx, stream.Reports, stream.Consumer) }},
		{"requeue consumer", func(js jetstream.JetStream) error {
			return js.DeleteConsumer(ctx, stream.Requeued, stream.Consumer)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{})
			if err := open(w, w.cfg); err != nil {
				t.Fatalf("with everything: %v", err)
			}
			if err := tt.remove(w.js); err != nil {
				t.Fatal(err)
			}
			if err := open(w, w.cfg); !errors.Is(err, stream.ErrNotSetUp) {
				t.Errorf("without %s: %v, want %v", tt.name, err, stream.ErrNotSetUp)
			}
			if err := Setup(t.Context(), w.js, w.cfg.Queues); err != nil {
				t.Fatal(err)
			}
			if err := open(w, w.cfg); err != nil {
				t.Errorf("set up again: %v", err)
			}
		})
	}
	t.Run("drift", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, quick(), script{})
		attempts, wait := w.cfg, w.cfg
		attempts.Queues.MaxAttempts++
		wait.Queues.AckWait *= 2
		for _, cfg := range []Config{attempts, wait} {
			if err := open(w, cfg); !errors.Is(err, stream.ErrDrift) {
				t.Errorf("with %+v: %v, want %v", cfg.Queues, err, stream.ErrDrift)
			}
		}
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, quick(), script{})
		w.srv.Stop(t)
		if err := open(w, w.cfg); err == nil || errors.Is(err, stream.ErrNotSetUp) || errors.Is(err, stream.ErrDrift) {
			t.Errorf("without a server: %v", err)
		}
		w.srv.Restart(t)
		natstest.Eventually(t, "the connection to be back", w.js.Conn().IsConnected)
	})
}
