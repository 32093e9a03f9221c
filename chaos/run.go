package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/part"
)

// Run does what the plan says and returns what it has shown. Its findings are in the result; an error says that the harness itself
// could not go on. All processes have ended and all temporary files are gone when it returns.
func Run(ctx context.Context, plan *Plan, log *slog.Logger) (r *Result, err error) {
	if !supported {
		return nil, errors.New("chaos: this system cannot stop processes and let them go on")
	}
	r = &Result{Seed: plan.Config.Seed, Command: plan.Config.Command(), Fates: map[Fate]int{}, Findings: []Finding{}}
	c := &children{}
	dir, clean, err := makeDir(plan.Config.Dir, c)
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	err = (&run{plan: plan, dir: dir, children: c, log: log, result: r}).all(ctx)
	if left := clean(); left != nil {
		r.Findings = append(r.Findings, Finding{What: Leftover, Text: left.Error()})
	}
	if n := c.running(); n != 0 {
		r.Findings = append(r.Findings, Finding{What: Leftover, Text: fmt.Sprintf("%d processes have not ended", n)})
	}
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	return r, nil
}

// run is one run.
type run struct {
	plan     *Plan
	dir      string
	children *children
	log      *slog.Logger
	result   *Result

	servers   *servers
	workers   *workers
	publisher *publisher
	js        jetstream.JetStream // past the proxies
}

// all is the run from its beginning to its end. What is started later ends earlier.
func (r *run) all(ctx context.Context) (err error) {
	if len(r.plan.Config.URLs) > 0 {
		r.servers, err = useServers(r.plan.Config)
	} else {
		r.servers, err = startServers(ctx, r.plan.Config, r.dir, r.children)
	}
	if err != nil {
		return err
	}
	defer r.servers.close()
	if r.js, err = r.servers.connect(); err != nil {
		return err
	}
	defer r.js.Conn().Close()
	if len(r.plan.Config.URLs) > 0 {
		if err := unused(ctx, r.js); err != nil {
			return err
		}
		defer r.leave(ctx)
	}
	in := newInjector(r.plan.Config, r.js, r.servers, nil, r.log)
	if err := in.setUp(ctx); err != nil {
		return err
	}
	if r.publisher, err = newPublisher(r.plan, r.servers.urls()); err != nil {
		return err
	}
	defer r.publisher.nc.Close()
	r.workers = newWorkers(r.plan.Config, r.dir, r.servers.urls(), r.children)
	in.workers = r.workers
	working, stop := context.WithCancel(ctx)
	defer r.workers.all.Wait()
	defer stop()
	if err := r.workers.run(working); err != nil {
		return err
	}

	var publishing sync.WaitGroup
	patient, cancel := context.WithTimeout(ctx, r.plan.Config.Duration+r.plan.Config.Patience)
	defer publishing.Wait()
	defer cancel()
	publishing.Go(func() { r.publisher.run(patient) })
	r.log.Info("started", "servers", len(r.servers.nodes), "workers", r.plan.Config.Workers, "reports", len(r.plan.Reports), "faults", len(r.plan.Faults))
	if err := in.run(ctx, r.plan.Faults); err != nil {
		return err
	}
	healed := time.Now()
	if err := in.heal(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	publishing.Wait()
	r.log.Info("all is healed and published", "settled", r.workers.count())
	r.drain(ctx, healed)
	stop()
	r.workers.all.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	r.measure(in, healed)
	r.log.Info("reading the streams")
	reading, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return inspect(reading, r.js, r.plan, r.publisher.acked, filepath.Join(r.dir, "runs"), r.result)
}

// unused makes sure that no stream of ours exists: what a run does to them must not be done to anybody's reports.
func unused(ctx context.Context, js jetstream.JetStream) error {
	for _, name := range consumer.Streams() {
		switch _, err := js.Stream(ctx, name); {
		case err == nil:
			return fmt.Errorf("stream %s exists: a run destroys what it finds; give it an account of its own, or delete the streams of an earlier run", name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return err
		}
	}
	return nil
}

// leave deletes the streams of a run on servers that are not ours, unless they are to be looked at.
func (r *run) leave(ctx context.Context) {
	if len(r.result.Findings) > 0 {
		r.log.Warn("the streams are left as they are, to be looked at: delete them before the next run", "streams", consumer.Streams())
		return
	}
	for _, name := range consumer.Streams() {
		if err := r.js.DeleteStream(context.WithoutCancel(ctx), name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			r.log.Error("a stream is left behind", "stream", name, "err", err)
		}
	}
}

// drain waits until the queues are empty, as long as patience allows.
func (r *run) drain(ctx context.Context, healed time.Time) {
	deadline, said := time.Now().Add(r.plan.Config.Patience), time.Now()
	for {
		n, err := left(ctx, r.js)
		switch {
		case err == nil && n == 0:
			r.result.Empty = time.Since(healed)
			return
		case ctx.Err() != nil:
			return
		case time.Now().After(deadline):
			r.result.Findings = append(r.result.Findings, Finding{What: Stuck, Text: fmt.Sprintf("%d reports are still in the queues after %v (%v)", n, r.plan.Config.Patience, err)})
			return
		case time.Since(said) > 10*time.Second:
			r.log.Info("draining", "left", n, "err", err)
			said = time.Now()
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// measure notes how the run went, apart from what became of the reports.
func (r *run) measure(in *injector, healed time.Time) {
	r.result.Faults, r.result.Refused = maps.Clone(in.done), r.publisher.refused.Load()
	r.result.Died, r.result.Outcomes = r.workers.died, r.workers.outcomes
	for _, h := range in.heals {
		if d, ok := r.workers.after(h.at); ok && in.calm(h, d) {
			r.result.Recovery = append(r.result.Recovery, d)
			r.log.Info("recovered", "from", h.fault.String(), "after", d)
		}
	}
	r.result.First, _ = r.workers.after(healed)
	r.result.recovered()
	r.result.Standstill = r.workers.standstill(healed)
}

// makeDir makes the directory of a run. A temporary one is removed by clean, or when this process is killed by a process
// that waits for that.
func makeDir(named string, c *children) (dir string, clean func() error, err error) {
	if named != "" {
		err := os.Mkdir(named, 0o700)
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%s exists: give a directory that is to be made", named)
		}
		return named, func() error { return nil }, err
	}
	if dir, err = os.MkdirTemp("", tempName); err != nil {
		return "", nil, err
	}
	cleaner, err := c.start(part.Config{Command: CleanCommand, Settings: cleanSettings{dir}, Outlives: true})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		err := os.RemoveAll(dir)
		cleaner.Kill()
		return err
	}, nil
}

// tempName begins the name of a temporary directory.
const tempName = "guyline-chaos-"

// cleanSettings is what the cleaning process is told.
type cleanSettings struct{ Dir string }
