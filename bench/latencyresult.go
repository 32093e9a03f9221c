package bench

import (
	"fmt"
	"time"
)

// LatencyResult is what a latency run has shown. What was not measured, or is unknown, is missing.
type LatencyResult struct {
	Settings Settings      `json:"settings"`
	Single   *SingleResult `json:"single,omitempty"`
	Retries  []RetryResult `json:"retries,omitempty"`
	Held     *HeldResult   `json:"held,omitempty"`
	Startup  []StartResult `json:"startup,omitempty"`
	Idle     *IdleResult   `json:"idle,omitempty"`
	Goals    []Goal        `json:"goals"`
}

// Percentiles are of times, in milliseconds.
type Percentiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Most  float64 `json:"max_ms"`
}

// SingleResult is how long single reports take from just before they are published until the worker has sent their acknowledgement.
type SingleResult struct {
	Idle   Percentiles `json:"idle"`
	Stored Percentiles `json:"stored"`                  // of it, at idle, until the publisher knows that the report is stored
	Max    float64     `json:"max_reports_per_second"`  // published and worked at the same time
	Load   float64     `json:"half_reports_per_second"` // what was published of half of that
	Half   Percentiles `json:"half"`
}

// RetryResult is how much later than asked for the second attempts of reports began.
type RetryResult struct {
	Outstanding int         `json:"outstanding"`
	Most        int         `json:"most_at_once"` // that waited at the same time
	Delay       float64     `json:"delay_ms"`
	Late        Percentiles `json:"late"`
	Early       int         `json:"early"`
}

// HeldResult compares rates with and without reports that wait for their retry.
type HeldResult struct {
	Held    int    `json:"held"`
	Reports int    `json:"reports"`
	With    Range  `json:"held_reports_per_second"`
	Without Range  `json:"none_reports_per_second"`
	Ratio   Range  `json:"rate_ratio"` // repetition by repetition
	CPU     *Range `json:"cpu_ratio,omitempty"`
}

// StartResult is how long processes took from their start, in milliseconds.
type StartResult struct {
	What  string      `json:"what"`
	Steps []StartStep `json:"steps"`
	Done  Range       `json:"done_ms"`
}

// StartStep is how long a process took to a step on its way.
type StartStep struct {
	Step string `json:"step"`
	At   Range  `json:"at_ms"`
}

// IdleResult is what `guyline run` costs while nothing happens.
type IdleResult struct {
	Seconds       float64 `json:"seconds"`
	CPU           float64 `json:"cpu_percent"` // of one processor
	RSS           int64   `json:"rss_bytes"`
	InspectionCPU float64 `json:"inspection_cpu_percent"` // of the process that inspects files
	InspectionRSS int64   `json:"inspection_rss_bytes"`
}

func newLatencyResult(cfg LatencyConfig) *LatencyResult {
	return &LatencyResult{Settings: newSettings(cfg.Version, cfg.Place, cfg.Workers), Goals: []Goal{}}
}

// percentiles of sorted times.
func percentiles(sorted []time.Duration) Percentiles {
	ms := func(q float64) float64 { return quantile(sorted, q).Seconds() * 1000 }
	return Percentiles{Count: len(sorted), P50: ms(0.50), P99: ms(0.99), Most: ms(1)}
}

// The numbers that the goals speak of.
const (
	goalOutstanding = 1000
	goalHeld        = 20_000
)

// judge compares what was measured with the goals, where it was measured with their numbers.
func (r *LatencyResult) judge() {
	one := func(x float64) Range { return Range{x, x, x} }
	aim := func(g Goal) {
		g.Verdict = g.Judge()
		r.Goals = append(r.Goals, g)
	}
	var p99 []float64
	early := 0
	for _, row := range r.Retries {
		early += row.Early
		if row.Outstanding == goalOutstanding {
			p99 = append(p99, row.Late.P99)
		}
	}
	if len(p99) > 0 {
		worst := spread(p99)
		worst.Median = worst.Max // every delay is to be kept
		aim(Goal{Number: 11, What: fmt.Sprintf("ms late at p99, %d outstanding, of the worst delay", goalOutstanding), Reached: worst, Accept: 25, WorldClass: 15, AtMost: true})
	}
	if len(r.Retries) > 0 {
		aim(Goal{Number: 11, What: "early deliveries", Reached: one(float64(early)), AtMost: true})
	}
	if h := r.Held; h != nil && h.Held == goalHeld {
		aim(Goal{Number: 12, What: fmt.Sprintf("rate with %d held / none", h.Held), Reached: h.Ratio, Accept: 0.95, WorldClass: 0.98})
	}
	if len(r.Startup) > 0 {
		aim(Goal{Number: 13, What: "ms to the first report done, " + r.Startup[0].What, Reached: r.Startup[0].Done, Accept: 80, WorldClass: 50, AtMost: true})
	}
	if i := r.Idle; i != nil {
		aim(Goal{Number: 13, What: "% of a CPU when idle", Reached: one(i.CPU), Accept: 0.6, WorldClass: 0.35, AtMost: true})
		aim(Goal{Number: 13, What: "MiB resident when idle", Reached: one(float64(i.RSS) / (1 << 20)), Accept: 25, WorldClass: 20, AtMost: true})
	}
}
