package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/guyline/guyline/extract/limits"
	"github.com/guyline/guyline/extract/pdf"
	"github.com/guyline/guyline/report"
)

// Config says how to run extraction processes.
type Config struct {
	Command   []string      // program and arguments of a process that calls [Serve]
	Processes int           // at once; 0 = one per CPU
	Limit     time.Duration // for one inspection; 0 = 20 seconds
	Files     int           // after which a process is replaced; 0 = 500
}

// Pool is a set of extraction processes. Its methods may be called from many goroutines.
type Pool struct {
	cfg   Config
	log   *slog.Logger
	slots chan struct{} // one per inspection under way

	mu   sync.Mutex
	idle []*process // the one used last is last
}

// Open starts the first process and waits until it is ready. If the engine's cache is cold, that takes several seconds,
// which it announces in the log, and leaves it warm. The other processes start when they are needed. Stopping ctx later
// does not stop them. Call [Pool.Close] when done.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Pool, error) {
	if cfg.Processes == 0 {
		cfg.Processes = runtime.GOMAXPROCS(0)
	}
	if cfg.Limit == 0 {
		cfg.Limit = 20 * time.Second
	}
	if cfg.Files == 0 {
		cfg.Files = 500
	}
	if missing := limits.Missing(); len(missing) > 0 {
		log.Warn("extraction processes are isolated, but this system lacks some limits for them", "missing", missing)
	}
	slow := time.AfterFunc(time.Second, func() {
		log.Info("preparing the PDF engine; if its cache is cold, that takes about 5 seconds of CPU time")
	})
	defer slow.Stop()
	first, err := start(ctx, cfg.Command)
	if err != nil {
		return nil, fmt.Errorf("start an extraction process: %w", err)
	}
	return &Pool{cfg: cfg, log: log, slots: make(chan struct{}, cfg.Processes), idle: []*process{first}}, nil
}

// Close waits for the inspections under way and ends all processes: those that do not end within 2 seconds by
// themselves are killed. No Inspect may follow.
func (p *Pool) Close() error {
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var wg sync.WaitGroup
	for _, proc := range p.idle {
		wg.Go(func() { proc.leave(ctx) })
	}
	wg.Wait()
	return nil
}

// Inspect has a process inspect the size bytes of f, and waits for a free one if need be. Errors have a kind and code
// of package report; if ctx ends, its error is returned plainly and the process is killed.
func (p *Pool) Inspect(ctx context.Context, f *os.File, size int64) (pdf.Document, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return pdf.Document{}, ctx.Err()
	}
	proc := p.take()
	for second := false; ; second = true {
		if proc == nil {
			var err error
			if proc, err = p.fresh(ctx); err != nil {
				return pdf.Document{}, err
			}
		}
		doc, answered, err := proc.inspect(ctx, f, size, p.cfg.Limit)
		switch {
		case answered:
			p.put(proc)
			return doc, err
		case ctx.Err() != nil:
			return doc, ctx.Err()
		}
		p.log.Warn("an extraction process has ended and is replaced", "code", report.Classify(err).Code, "reason", err, "second_try", second)
		if second {
			return doc, err
		}
		proc = nil
	}
}

// fresh starts a process. That one is killed before it is ready says nothing about the file or this program, so another one
// is started as long as ctx lasts.
func (p *Pool) fresh(ctx context.Context) (*process, error) {
	for {
		proc, err := start(ctx, p.cfg.Command)
		switch {
		case err == nil:
			return proc, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, errKilled):
			return nil, report.Hold(report.CodeUnclassified, fmt.Errorf("start an extraction process: %w; nothing can be inspected without", err))
		}
		p.log.Warn("an extraction process was killed before it was ready; starting another")
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns the live process that was used last, or nil.
func (p *Pool) take() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		proc := p.idle[last]
		p.idle = p.idle[:last]
		select {
		case <-proc.Done():
			proc.conn.Close()
		default:
			return proc
		}
	}
	return nil
}

// put keeps a process for later, unless it has inspected its share of files.
func (p *Pool) put(proc *process) {
	if proc.asked >= p.cfg.Files {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		proc.leave(ctx)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, proc)
}
