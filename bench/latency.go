package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/guyline/guyline/consumer"
)

// Part is one thing that [Latency] measures.
type Part string

const (
	Single  Part = "single"  // from publishing to done, at idle and at half load
	Retries Part = "retries" // how late delayed retries come
	Held    Part = "held"    // the rate beside reports that wait for their retry
	Startup Part = "startup" // from the process's start to the first report done; embedded only
	Idle    Part = "idle"    // what a worker costs that has nothing to do; embedded only
)

// Parts are all that can be measured on a server, in the order in which they are.
func Parts(mode Mode) []Part {
	if mode == Embedded {
		return []Part{Single, Retries, Held, Startup, Idle}
	}
	return []Part{Single, Retries, Held}
}

// LatencyConfig says what a latency run measures. [DefaultLatency] has the defaults.
type LatencyConfig struct {
	Place   Config
	Parts   []Part
	Workers int    // of the product, 1 to 1,024, but for start-up and idle, which have the default
	Version string // of the program

	Samples     int           // single reports at idle
	Reports     int           // backlog of which the largest rate is taken, and of each lap of Held
	Load        time.Duration // how long half that rate is published
	Outstanding []int         // reports that wait for a retry at once; each number by itself
	Delays      []time.Duration
	Held        int // reports that wait all the time
	Reps        int // of Held, each with a lap with and one without
	Starts      int // of each kind
	Idle        time.Duration

	// CacheDir keeps the compiled PDF engine for the starts of `guyline run`.
	CacheDir string
}

// DefaultLatency measures everything that the server's place allows.
func DefaultLatency(mode Mode, sync Sync) LatencyConfig {
	return LatencyConfig{
		Place: Config{Mode: mode, Sync: sync}, Parts: Parts(mode), Workers: 1024,
		Samples: 200, Reports: 20_000, Load: 10 * time.Second,
		Outstanding: []int{1000, 20_000}, Delays: []time.Duration{50 * time.Millisecond, 400 * time.Millisecond, 5 * time.Second},
		Held: 20_000, Reps: 5, Starts: 7, Idle: 20 * time.Second,
	}
}

// Validate checks the settings.
func (c LatencyConfig) Validate() error {
	for _, n := range []struct {
		what       string
		is, lo, hi int
	}{
		{"workers", c.Workers, 1, 1024}, {"samples", c.Samples, 1, 10_000}, {"reports", c.Reports, 100, 1_000_000},
		{"held reports", c.Held, 1, 100_000}, {"repetitions", c.Reps, 1, 100}, {"starts", c.Starts, 1, 100},
	} {
		if n.is < n.lo || n.is > n.hi {
			return fmt.Errorf("the number of %s is %d, allowed is %d to %d", n.what, n.is, n.lo, n.hi)
		}
	}
	for _, n := range c.Outstanding {
		if n < 1 || n > 100_000 {
			return fmt.Errorf("the number of outstanding reports is %d, allowed is 1 to 100000", n)
		}
	}
	for _, d := range append(slices.Clone(c.Delays), c.Load, c.Idle) {
		if d < time.Millisecond || d > 5*time.Minute {
			return fmt.Errorf("a time is %v, allowed is 1ms to 5m", d)
		}
	}
	if len(c.Parts) == 0 || len(c.Outstanding) == 0 || len(c.Delays) == 0 {
		return errors.New("nothing to measure is named")
	}
	for i, p := range c.Parts {
		if !slices.Contains(Parts(c.Place.Mode), p) || slices.Contains(c.Parts[:i], p) {
			return fmt.Errorf("the parts name %.40q, allowed are, each once, on this server: %s", string(p), join(Parts(c.Place.Mode)))
		}
	}
	return c.Place.Validate()
}

// consumerConfig is [Config.consumer] without jitter. A report that waits for its retry holds no worker, but counts against MaxAckPending,
// which the bench raises so far that all of them and the workers have room.
func (c LatencyConfig) consumerConfig(outstanding int) consumer.Config {
	out := c.Place.consumer(c.Workers, c.Version)
	out.Backoff.Jitter = 0
	out.Queues.MaxAckPending = max(out.Queues.MaxAckPending, outstanding+2*c.Workers)
	return out
}

// Latency measures, part by part, the product itself: the consumer with everything on and a handler that does nothing. When it returns, all
// processes have ended and all temporary files are gone.
func Latency(ctx context.Context, cfg LatencyConfig, log *slog.Logger) (*LatencyResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := newLatencyResult(cfg)
	r.Settings.LoadBefore = loadNow()
	for _, p := range Parts(cfg.Place.Mode) {
		if !slices.Contains(cfg.Parts, p) {
			continue
		}
		log.Info("measuring", "part", p)
		measure := map[Part]func(context.Context, LatencyConfig, *LatencyResult) error{
			Single: measureSingle, Retries: measureRetries, Held: measureHeld, Startup: measureStartup, Idle: measureIdle,
		}[p]
		if err := measure(ctx, cfg, r); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	r.Settings.LoadAfter = loadNow()
	r.judge()
	return r, nil
}

// quantile is the smallest value that at least this share of the sorted ones does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
