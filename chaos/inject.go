package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/stream"
)

// injector disturbs a run.
type injector struct {
	cfg     Config
	js      jetstream.JetStream // past the proxies
	servers *servers
	workers *workers
	log     *slog.Logger

	mu     sync.Mutex
	lanes  map[string]*sync.Mutex
	done   map[Kind]int // faults that hit something
	active int          // faults that are not healed yet
	begun  []time.Time  // when each fault began
	heals  []heal       // after which nothing was broken any more
	errs   []error      // of the harness
}

// heal is the end of a fault.
type heal struct {
	fault Fault
	at    time.Time
}

// calm reports whether no fault began within a time after a heal.
func (in *injector) calm(h heal, d time.Duration) bool {
	return !slices.ContainsFunc(in.begun, func(at time.Time) bool { return at.After(h.at) && at.Before(h.at.Add(d)) })
}

func newInjector(cfg Config, js jetstream.JetStream, s *servers, w *workers, log *slog.Logger) *injector {
	return &injector{cfg: cfg, js: js, servers: s, workers: w, log: log, lanes: map[string]*sync.Mutex{}, done: map[Kind]int{}}
}

// run injects every fault at its time and returns when all are healed, or when ctx ends.
func (in *injector) run(ctx context.Context, faults []Fault) error {
	began := time.Now()
	var all sync.WaitGroup
	for _, f := range faults {
		pause(ctx, f.At-time.Since(began))
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			lane := in.lane(f)
			lane.Lock()
			defer lane.Unlock()
			in.log.Info("fault", "fault", f.String())
			in.mu.Lock()
			in.active++
			in.begun = append(in.begun, time.Now())
			in.mu.Unlock()
			hit, err := in.inject(ctx, f)
			in.mu.Lock()
			defer in.mu.Unlock()
			in.active--
			switch {
			case err != nil && ctx.Err() == nil:
				in.errs = append(in.errs, fmt.Errorf("%s: %w", f, err))
			case !hit:
				in.log.Info("the fault hit nothing", "fault", f.String())
			default:
				in.done[f.Kind]++
				if in.active == 0 {
					in.heals = append(in.heals, heal{f, time.Now()})
				}
			}
		})
	}
	all.Wait()
	return errors.Join(in.errs...)
}

// lane keeps faults apart that would undo each other. One has servers away at a time, so that a cluster keeps its majority unless the
// fault is meant to take it.
func (in *injector) lane(f Fault) *sync.Mutex {
	name := string(f.Kind) + f.Target.Stream
	switch f.Kind {
	case KillServer, StopServer, FreezeServer, KillServers:
		name = "away"
	case LoseToServer, LoseFromServer:
		name = fmt.Sprint(f.Kind, f.Target.Number)
	case KillWorker, StopWorker, Drop, StepDown:
		return &sync.Mutex{} // over at once
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.lanes[name] == nil {
		in.lanes[name] = &sync.Mutex{}
	}
	return in.lanes[name]
}

// inject does one fault, from its beginning to its end, and reports whether it hit anything.
func (in *injector) inject(ctx context.Context, f Fault) (hit bool, err error) {
	switch f.Kind {
	case KillWorker:
		return in.workers.tell(f.Target.Number, os.Kill), nil
	case StopWorker:
		return in.workers.tell(f.Target.Number, terminate), nil
	case KillServers:
		return true, in.restart(ctx, f, os.Kill, in.servers.nodes...)
	case KillServer, StopServer, FreezeServer:
		n, err := in.target(ctx, f)
		if err != nil {
			return false, nil
		}
		switch f.Kind {
		case KillServer:
			return true, in.restart(ctx, f, os.Kill, n)
		case StopServer:
			return true, in.restart(ctx, f, terminate, n)
		}
		n.process.Signal(freeze)
		pause(ctx, f.For)
		n.process.Signal(thaw)
		return true, nil
	case StepDown:
		return in.stepDown(ctx, f), nil
	case Drop:
		in.servers.nodes[f.Target.Number].proxy.drop()
		return true, nil
	case LoseToServer, LoseFromServer:
		w := toServer
		if f.Kind == LoseFromServer {
			w = fromServer
		}
		end := in.servers.nodes[f.Target.Number].proxy.lose(w)
		pause(ctx, f.For)
		end(f.Late)
		return true, nil
	case FullStream:
		return in.fillStream(ctx, f)
	case FullStore:
		in.servers.fill(true)
		pause(ctx, f.For)
		in.servers.fill(false)
		return true, nil
	case DeleteConsumer:
		deleted := in.js.DeleteConsumer(ctx, f.Target.Stream, stream.Consumer)
		if deleted != nil { // or it is, and only the answer is missing
			in.log.Info("the consumer cannot be deleted now", "err", deleted)
		}
		pause(ctx, f.For)
		return deleted == nil, in.setUp(ctx)
	}
	return false, fmt.Errorf("no such fault: %s", f.Kind)
}

// target finds who is to be hit, and waits a little for a leader.
func (in *injector) target(ctx context.Context, f Fault) (n *node, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = in.again(ctx, func(ctx context.Context) (err error) {
		n, err = in.servers.led(ctx, in.js, f.Target)
		return err
	})
	return n, err
}

// restart ends servers with a signal, and starts them again when the fault's time is over.
func (in *injector) restart(ctx context.Context, f Fault, s os.Signal, nodes ...*node) error {
	for _, n := range nodes {
		n.process.Signal(s)
	}
	for _, n := range nodes {
		select {
		case <-n.process.Ended():
		case <-time.After(time.Minute):
			in.log.Warn("a server did not stop within a minute and is killed", "server", n.settings.Name)
			n.process.Kill()
		}
	}
	pause(ctx, f.For)
	var failed error
	for _, n := range nodes {
		failed = errors.Join(failed, in.servers.start(ctx, n))
	}
	return failed
}

func (in *injector) stepDown(ctx context.Context, f Fault) bool {
	subject := "$JS.API.STREAM.LEADER.STEPDOWN." + f.Target.Stream
	if f.Target.Consumer {
		subject = "$JS.API.CONSUMER.LEADER.STEPDOWN." + f.Target.Stream + "." + stream.Consumer
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := in.js.Conn().RequestWithContext(ctx, subject, nil)
	return err == nil
}

// fillStream makes what a stream holds already be all that it may hold.
func (in *injector) fillStream(ctx context.Context, f Fault) (bool, error) {
	err := in.limit(ctx, f.Target.Stream, 1)
	if err != nil {
		in.log.Info("the stream cannot be limited now", "err", err)
	}
	pause(ctx, f.For)
	return err == nil, in.again(ctx, func(ctx context.Context) error { return in.limit(ctx, f.Target.Stream, bytesOf(f.Target.Stream)) })
}

// limit sets the most that a stream may hold.
func (in *injector) limit(ctx context.Context, name string, most int64) error {
	s, err := in.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxBytes == most {
		return nil
	}
	cfg.MaxBytes = most
	_, err = in.js.UpdateStream(ctx, cfg)
	return err
}

// bytesOf is the most that a stream may hold while nobody has filled it.
func bytesOf(name string) int64 {
	if name == stream.Reports {
		return queueBytes
	}
	return -1
}

// heal puts right what an injection has asked for that was done after it was given up, as its answer was lost.
func (in *injector) heal(ctx context.Context) error {
	err := in.setUp(ctx)
	for _, name := range []string{stream.Reports, dlq.Stream, audit.Stream} {
		err = errors.Join(err, in.again(ctx, func(ctx context.Context) error { return in.limit(ctx, name, bytesOf(name)) }))
	}
	return err
}

// setUp makes what is missing of the streams and consumers.
func (in *injector) setUp(ctx context.Context) error {
	return in.again(ctx, func(ctx context.Context) error { return consumer.Setup(ctx, in.js, in.cfg.consumer().Queues) })
}

// again repeats what needs a server until it works; it gives up after two minutes.
func (in *injector) again(ctx context.Context, op func(context.Context) error) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := op(try)
		cancel()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}
