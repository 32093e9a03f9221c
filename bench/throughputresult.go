package bench

import (
	"runtime"
	"runtime/debug"
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
	Workers    int      `json:"workers,omitempty"`     // of throughput and latency
}

// Check is the count of a backlog with duplicates.
type Check struct {
	Design     Design `json:"design"`
	Reports    int    `json:"reports"`
	Done       int    `json:"done"` // entries in the ledger
	Duplicates int    `json:"duplicates"`
}

// Lap is one measurement.
type Lap struct {
	Repetition int    `json:"repetition"`
	Design     Design `json:"design"`
	Usage

	// Redelivered is how often the server has delivered a message again because it got no answer for AckWait: something stood still.
	Redelivered int `json:"redelivered,omitzero"`
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
	Rate   Range  `json:"rate_ratio"`
	CPU    *Range `json:"cpu_ratio,omitempty"`
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
	laps := map[Design][]Usage{}
	for _, l := range r.Laps {
		laps[l.Design] = append(laps[l.Design], l.Usage)
	}
	for _, d := range Designs() {
		if len(laps[d]) == 0 {
			continue
		}
		r.Designs = append(r.Designs, Summary{
			Design: d, Rate: spread(each(laps[d], Usage.rate)), CPU: known(each(laps[d], Usage.cpu)),
			Client: known(each(laps[d], Usage.client)), Server: known(each(laps[d], Usage.server)),
		})
		for _, to := range Yardsticks() {
			if d != to && len(laps[to]) > 0 {
				rate, cpu := ratios(laps[d], laps[to])
				r.Ratios = append(r.Ratios, Ratio{d, to, rate, cpu})
			}
		}
	}
	r.judge()
}
