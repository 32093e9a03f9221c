package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/guyline/guyline/consumer"
)

// ThroughputConfig says what a throughput run measures. [DefaultThroughput] has the defaults.
type ThroughputConfig struct {
	Place   Config
	Reports int      // backlog of each lap, 100 to 1,000,000
	Reps    int      // laps of each design, 1 to 100
	Workers int      // of the product, 1 to 1,024
	Designs []Design // in the order in which they are run in the first repetition
	Profile string   // directory for profiles of each lap's processor time, made if need be; empty: none. They cost a little of what is measured
	Version string   // of the program
}

// DefaultThroughput is 50,000 reports, 5 repetitions of every design and 1,024 workers; if each write is synced it is 10,000 reports, and the
// designs of which syncing is the cost.
func DefaultThroughput(mode Mode, sync Sync) ThroughputConfig {
	cfg := ThroughputConfig{Place: Config{Mode: mode, Sync: sync}, Reports: 50_000, Reps: 5, Workers: 1024, Designs: Designs()}
	if cfg.Place.synced() {
		cfg.Reports, cfg.Designs = 10_000, []Design{Naive, CreateAsync, Guyline}
	}
	return cfg
}

// Validate checks the settings.
func (c ThroughputConfig) Validate() error {
	switch {
	case c.Reports < 100 || c.Reports > 1_000_000:
		return fmt.Errorf("the number of reports is %d, allowed is 100 to 1000000", c.Reports)
	case c.Reps < 1 || c.Reps > 100:
		return fmt.Errorf("the number of repetitions is %d, allowed is 1 to 100", c.Reps)
	case c.Workers < 1 || c.Workers > 1024:
		return fmt.Errorf("the number of workers is %d, allowed is 1 to 1024", c.Workers)
	case len(c.Designs) == 0:
		return errors.New("no design is named")
	}
	for i, d := range c.Designs {
		if !slices.Contains(Designs(), d) || slices.Contains(c.Designs[:i], d) {
			return fmt.Errorf("the designs name %.40q, allowed are, each once: %s", string(d), join(Designs()))
		}
	}
	return c.Place.Validate()
}

func join[W ~string](words []W) string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return strings.Join(plain, ",")
}

// checked is how many reports the lap has, at most, that checks how a design treats duplicates.
const checked = 4000

// Throughput has every design work the same backlog, again and again. The repetitions are the outer loop, so that what disturbs the machine
// disturbs all designs alike. Before them each design with a ledger works a backlog in which every fourth report is a duplicate, for its
// counts alone.
//
// Each lap has a fresh store, and but for a given server a fresh server. What it has left is checked before it counts: an error says which
// design has miscounted, or that it got stuck. When Throughput returns, all processes have ended and all temporary files are gone.
func Throughput(ctx context.Context, cfg ThroughputConfig, log *slog.Logger) (*ThroughputResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Profile != "" {
		if err := os.MkdirAll(cfg.Profile, 0o755); err != nil {
			return nil, err
		}
	}
	r := newResult(cfg)
	r.Settings.LoadBefore = loadNow()
	for _, d := range cfg.Designs {
		if !designs[d].ledger || !designs[d].keyed {
			continue
		}
		l, err := cfg.lap(ctx, d, 0)
		if err != nil {
			return nil, fmt.Errorf("%s, with duplicates: %w", d, err)
		}
		r.Settings.Server = l.server
		r.Checks = append(r.Checks, Check{Design: d, Reports: l.reports, Done: l.unique, Duplicates: l.reports - l.unique})
		log.Info("checked", "design", d, "reports", l.reports, "duplicates", l.reports-l.unique)
	}
	for rep := 1; rep <= cfg.Reps; rep++ {
		for _, d := range cfg.order(rep) {
			l, err := cfg.lap(ctx, d, rep)
			if err != nil {
				return nil, fmt.Errorf("%s, repetition %d: %w", d, rep, err)
			}
			r.Settings.Server = l.server
			r.Laps = append(r.Laps, Lap{rep, d, l.usage, l.redelivered})
			log.Info("measured", append([]any{"repetition", rep, "design", d}, l.usage.attrs()...)...)
			if l.redelivered > 0 {
				log.Warn("something stood still: messages were delivered again", "repetition", rep, "design", d, "redelivered", l.redelivered)
			}
		}
	}
	r.Settings.LoadAfter = loadNow()
	r.sum()
	return r, nil
}

// order is that of the designs in a repetition. Each repetition begins with another, so that none always comes after the same.
func (c ThroughputConfig) order(rep int) []Design {
	first := (rep - 1) * len(c.Designs) / c.Reps
	return slices.Concat(c.Designs[first:], c.Designs[:first])
}

func loadNow() *float64 {
	load, err := loadAverage()
	if err != nil {
		return nil
	}
	return &load
}

func (c ThroughputConfig) consumerConfig() consumer.Config {
	return c.Place.consumer(c.Workers, c.Version)
}

// stuck is how long a lap may go without a settled report.
const stuck = time.Minute
