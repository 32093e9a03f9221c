package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/part"
)

// workers is the worker processes. One that ends is started again.
type workers struct {
	cfg      Config
	children *children
	dir      string
	urls     []string
	all      sync.WaitGroup

	mu       sync.Mutex
	at       []*part.Process // by number; nil while none runs
	died     int             // how often one ended without having been told to
	told     map[*part.Process]bool
	outcomes map[consumer.Kind]int
	settled  []time.Time // when a report was done or buried, in order
}

func newWorkers(cfg Config, dir string, urls []string, c *children) *workers {
	return &workers{
		cfg: cfg, children: c, dir: dir, urls: urls, at: make([]*part.Process, cfg.Workers), told: map[*part.Process]bool{}, outcomes: map[consumer.Kind]int{},
	}
}

// run keeps them running until ctx ends, and then stops them.
func (w *workers) run(ctx context.Context) error {
	if err := makeRuns(filepath.Join(w.dir, "runs")); err != nil {
		return err
	}
	for i := range w.at {
		log, err := logFile(filepath.Join(w.dir, fmt.Sprint("worker-", i+1)))
		if err != nil {
			return err
		}
		w.all.Go(func() {
			defer log.Close()
			for ctx.Err() == nil {
				w.one(ctx, i, log)
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	return nil
}

// one is the life of one process.
func (w *workers) one(ctx context.Context, i int, log *os.File) {
	settings := workerSettings{w.cfg, fmt.Sprint("worker-", i+1), filepath.Join(w.dir, "runs"), w.urls}
	p, err := w.children.start(part.Config{Command: WorkerCommand, Settings: settings, Log: log, Line: w.observe})
	if err != nil {
		fmt.Fprintln(log, err)
		return
	}
	w.mu.Lock()
	w.at[i] = p
	w.mu.Unlock()
	select {
	case <-p.Ended():
	case <-ctx.Done():
		w.tell(i, terminate)
		select {
		case <-p.Ended():
		case <-time.After(time.Minute): // Run gives up long before
			fmt.Fprintln(log, "killed: it did not stop")
			p.Kill()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at[i] = nil; !w.told[p] {
		w.died++
	}
	delete(w.told, p)
}

// tell sends a signal to a worker, if it runs.
func (w *workers) tell(i int, s os.Signal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at[i] == nil {
		return false
	}
	w.told[w.at[i]] = true
	w.at[i].Signal(s)
	return true
}

func (w *workers) observe(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := consumer.Kind(line)
	w.outcomes[kind]++
	if kind == consumer.Succeeded || kind == consumer.Buried {
		w.settled = append(w.settled, time.Now())
	}
}

// after is how long after a moment the next report was settled; false if none was.
func (w *workers) after(moment time.Time) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.settled) - 1; i >= 0; i-- {
		if w.settled[i].Before(moment) {
			if i+1 == len(w.settled) {
				return 0, false
			}
			return w.settled[i+1].Sub(moment), true
		}
	}
	if len(w.settled) == 0 {
		return 0, false
	}
	return w.settled[0].Sub(moment), true
}

// standstill is the longest time until a moment in which no report was settled.
func (w *workers) standstill(until time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.settled) && w.settled[i-1].Before(until); i++ {
		longest = max(longest, w.settled[i].Sub(w.settled[i-1]))
	}
	return longest
}

// count is how many reports have been settled so far.
func (w *workers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.settled)
}

// logFile opens the log of a process.
func logFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	return f, nil
}

// lastLine is the end of a log.
func lastLine(path string) string {
	all, _ := os.ReadFile(path)
	all = bytes.TrimSpace(all)
	return string(all[bytes.LastIndexByte(all, '\n')+1:])
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
