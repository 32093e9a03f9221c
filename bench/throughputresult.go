package bench

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
)

// ThroughputResult is what a run has shown. What is unknown is nil, and missing in JSON.
type ThroughputResult struct {
	Settings Settings  `json:"settings"`
	Checks   []Check   `json:"checks"`
	Laps     []Lap     `json:"laps"`
	Designs  []Summary `json:"designs"`
	Ratios   []Ratio   `json:"ratios"`
	Goals    []Goal    `json:"goals"`
}

// Settings is what was measured on what.
type Settings struct {
	Version    string   `json:"version"`
	Server     string   `json:"nats_server,omitempty"` // as it says itself
	Client     string   `json:"nats_go"`
	Go         string   `json:"go"`
	Platform   string   `json:"platform"`
	CPUs       int      `json:"cpus"`
	LoadBefore *float64 `json:"load_before,omitempty"` // average of a minute
	LoadAfter  *float64 `json:"load_after,omitempty"`
	Mode       Mode     `json:"server"`
	Sync       Sync     `json:"sync,omitempty"` // of a given server it is not known
	Replicas   int      `json:"replicas"`
	Reports    int      `json:"reports,omitempty"`     // of throughput
	Reps       int      `json:"repetitions,omitempty"` // of throughput
	Workers    int      `json:"workers"`
}

// Check is the count of a backlog with duplicates.
type Check struct {
	Design     Design `json:"design"`
	Reports    int    `json:"reports"`
	Done       int    `json:"done"` // entries in the ledger
	Duplicates int    `json:"duplicates"`
}

// processor is a lap's processor time in the log, or nothing if it is not known.
func processor(seconds *float64) slog.Attr {
	if seconds == nil {
		return slog.Attr{}
	}
	return slog.Float64("cpu_s_per_100k", *seconds)
}

// Lap is one measurement.
type Lap struct {
	Repetition int      `json:"repetition"`
	Design     Design   `json:"design"`
	Seconds    float64  `json:"seconds"`
	Rate       float64  `json:"reports_per_second"`
	CPU        *float64 `json:"cpu_s_per_100k,omitempty"`   // client and server
	Client     *int64   `json:"client_rss_bytes,omitempty"` // the peak; with an embedded server, of both
	Server     *int64   `json:"server_rss_bytes,omitempty"` // the peak

	// Redelivered is how often the server has delivered a message again because it got no answer for AckWait: something stood still.
	Redelivered int `json:"redelivered,omitzero"`
}

// Range is a median and what it lies in.
type Range struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summary is all laps of a design.
type Summary struct {
	Design Design `json:"design"`
	Rate   Range  `json:"reports_per_second"`
	CPU    *Range `json:"cpu_s_per_100k,omitempty"`
	Client *Range `json:"client_rss_bytes,omitempty"`
	Server *Range `json:"server_rss_bytes,omitempty"`
}

// Ratio compares two designs, each repetition by itself.
type Ratio struct {
	Design Design `json:"design"`
	To     Design `json:"to"`
	Rate   Range  `json:"rate"`
	CPU    *Range `json:"cpu,omitempty"`
}

// measured is the lap as one line of the result.
func (l *lap) measured() Lap {
	out := Lap{Repetition: l.rep, Design: l.design, Seconds: l.seconds, Rate: float64(l.reports) / l.seconds, Redelivered: l.redelivered}
	if l.cpuErr == nil {
		out.CPU = new(l.cpu.Seconds() * 100_000 / float64(l.reports))
	}
	if l.memoryErr == nil {
		out.Client = &l.client
		if l.cfg.Place.Mode == Separate {
			out.Server = &l.memory
		}
	}
	return out
}

func newResult(cfg ThroughputConfig) *ThroughputResult {
	s := newSettings(cfg.Version, cfg.Place, cfg.Workers)
	s.Reports, s.Reps = cfg.Reports, cfg.Reps
	return &ThroughputResult{Settings: s, Checks: []Check{}, Laps: []Lap{}, Designs: []Summary{}, Ratios: []Ratio{}, Goals: []Goal{}}
}

func newSettings(version string, place Config, workers int) Settings {
	s := Settings{
		Version: version, Client: moduleVersion("github.com/nats-io/nats.go"), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Mode: place.Mode, Replicas: max(1, place.Replicas), Workers: workers,
	}
	if place.Mode != Given {
		s.Sync = place.Sync
	}
	return s
}

func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// Yardsticks are what every other design is compared with.
func Yardsticks() []Design { return []Design{Raw, RawLimits, Floor, FloorLimits, Naive, CreateAsync} }

// sum makes medians, ratios and goals of the laps.
func (r *ThroughputResult) sum() {
	laps := map[Design][]Lap{}
	for _, l := range r.Laps {
		laps[l.Design] = append(laps[l.Design], l)
	}
	for _, d := range Designs() {
		if len(laps[d]) == 0 {
			continue
		}
		r.Designs = append(r.Designs, Summary{
			Design: d, Rate: spread(each(laps[d], rate)), CPU: known(each(laps[d], cpu)),
			Client: known(each(laps[d], func(l Lap) *float64 { return size(l.Client) })),
			Server: known(each(laps[d], func(l Lap) *float64 { return size(l.Server) })),
		})
		for _, to := range Yardsticks() {
			if d != to && len(laps[to]) > 0 {
				r.Ratios = append(r.Ratios, Ratio{
					Design: d, To: to, Rate: spread(divide(each(laps[d], rate), each(laps[to], rate))),
					CPU: known(divide(each(laps[d], cpu), each(laps[to], cpu))),
				})
			}
		}
	}
	r.judge()
}

func rate(l Lap) *float64 { return &l.Rate }
func cpu(l Lap) *float64  { return l.CPU }

func size(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// each is one number of every lap, in the order of repetitions; nil if one of them is unknown.
func each(laps []Lap, number func(Lap) *float64) (out []float64) {
	for _, l := range laps {
		n := number(l)
		if n == nil {
			return nil
		}
		out = append(out, *n)
	}
	return out
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
