package consumer

import (
	"context"
	"log/slog"
	"runtime"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// worker is one worker process: a consumer on a connection of its own.
type worker struct {
	*Consumer
	nc       *nats.Conn
	stop     context.CancelFunc
	returned chan struct{} // closed when Run has returned
	err      error         // of Run
}

// open opens a worker with the scripted handler; its Run is not called yet.
func (w *world) open(opts ...nats.Option) *worker {
	w.Helper()
	opts = append(opts, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the tests are about what follows
	k := &worker{nc: w.srv.Conn(w, opts...), stop: func() {}, returned: make(chan struct{})}
	js, err := jetstream.New(k.nc)
	if err != nil {
		w.Fatal(err)
	}
	cfg := w.cfg
	cfg.Observe = w.observe
	if k.Consumer, err = Open(w.Context(), js, w.handle, cfg, slog.New(slog.NewTextHandler(w.Output(), nil))); err != nil {
		w.Fatal(err)
	}
	return k
}

// start opens a worker and lets it run until it is stopped. Changes are made before it runs.
func (w *world) start(changes ...func(*worker)) *worker {
	w.Helper()
	k := w.open()
	for _, change := range changes {
		change(k)
	}
	w.run(k)
	return k
}

// run lets an opened worker run.
func (w *world) run(k *worker) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	w.mu.Lock()
	w.workers = append(w.workers, k)
	w.mu.Unlock()
	go func() {
		defer close(k.returned)
		k.err = k.Run(ctx)
	}()
	w.Cleanup(func() {
		k.stop()
		<-k.returned
	})
}

// newest is the worker that was started last.
func (w *world) newest() *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.workers[len(w.workers)-1]
}

// end stops a worker, waits for its Run and returns what that returned.
func (k *worker) end() error {
	k.stop()
	<-k.returned
	return k.err
}

// stopAll stops every worker. Those whose connection lives must end well, with every slot given back once.
func (w *world) stopAll() {
	w.Helper()
	for _, k := range w.workers {
		k.stop()
	}
	for _, k := range w.workers {
		switch err := k.end(); {
		case k.nc.IsClosed():
		case err != nil:
			w.Errorf("Run: %v", err)
		case len(k.hand.all()) > 0 || !k.slots.free.TryAcquire(int64(k.cfg.Workers)):
			w.Errorf("a worker that has ended holds slots, and %d reports", len(k.hand.all()))
		default:
			k.slots.free.Release(int64(k.cfg.Workers))
		}
	}
}

// dyingAt lets a worker die right after a row: its connection closes, so that nothing it tells the server arrives any more, and the report
// goes no further.
func dyingAt(step string) func(*worker) {
	return at(step, func(k *worker) {
		k.nc.Close()
		k.inWork.Done()
		runtime.Goexit()
	})
}

// at lets a worker do something right after a row.
func at(step string, do func(*worker)) func(*worker) {
	return func(k *worker) {
		k.step = func(done string) {
			if done == step {
				do(k)
			}
		}
	}
}
