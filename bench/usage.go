package bench

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// Usage is what it took to work or publish so many reports. What is unknown is nil, and missing in JSON.
type Usage struct {
	Seconds float64  `json:"seconds"`
	Rate    float64  `json:"reports_per_second"`
	CPU     *float64 `json:"cpu_s_per_100k,omitempty"`   // client and server
	Client  *int64   `json:"client_rss_bytes,omitempty"` // the peak; with an embedded server, of both
	Server  *int64   `json:"server_rss_bytes,omitempty"` // the peak
}

// Range is a median and what it lies in.
type Range struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// measure says what doing something with so many reports takes.
func (p *place) measure(reports int, do func() error) (u Usage, err error) {
	debug.FreeOSMemory() // collects garbage, too: nothing is charged with what was before it
	reset := p.resetPeak()
	before, unknown := p.cpu()
	started := time.Now()
	if err := do(); err != nil {
		return u, err
	}
	u.Seconds = time.Since(started).Seconds()
	u.Rate = float64(reports) / u.Seconds
	after, again := p.cpu()
	if unknown == nil && again == nil {
		u.CPU = new((after - before).Seconds() * 100_000 / float64(reports))
	}
	if client, server, err := p.peak(); err == nil && reset == nil {
		u.Client = &client
		if p.cfg.Mode == Separate {
			u.Server = &server
		}
	}
	return u, nil
}

// attrs are those of a line of the log.
func (u Usage) attrs() []any {
	out := []any{"per_second", int(u.Rate), "seconds", u.Seconds}
	if u.CPU != nil {
		out = append(out, slog.Float64("cpu_s_per_100k", *u.CPU))
	}
	return out
}

func (u Usage) rate() *float64   { return &u.Rate }
func (u Usage) cpu() *float64    { return u.CPU }
func (u Usage) client() *float64 { return size(u.Client) }
func (u Usage) server() *float64 { return size(u.Server) }

func size(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// each is one number of every lap, in the order of repetitions; nil if one of them is unknown.
func each(laps []Usage, number func(Usage) *float64) (out []float64) {
	for _, l := range laps {
		n := number(l)
		if n == nil {
			return nil
		}
		out = append(out, *n)
	}
	return out
}

// ratios compares laps, repetition by repetition.
func ratios(of, to []Usage) (rate Range, cpu *Range) {
	return spread(divide(each(of, Usage.rate), each(to, Usage.rate))), known(divide(each(of, Usage.cpu), each(to, Usage.cpu)))
}

// divide divides repetition by repetition; nil if either is unknown.
func divide(a, b []float64) (out []float64) {
	if len(a) != len(b) {
		return nil
	}
	for i := range a {
		if b[i] == 0 { // the clock of processor time has ticks
			return nil
		}
		out = append(out, a[i]/b[i])
	}
	return out
}

func known(of []float64) *Range {
	if len(of) == 0 {
		return nil
	}
	return new(spread(of))
}

// spread is the median, the least and the most of at least one number.
func spread(of []float64) Range {
	s := slices.Sorted(slices.Values(of))
	n := len(s)
	return Range{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}
