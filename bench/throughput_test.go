package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/internal/natstest"
)

// small is a run of every design that is over soon.
func small(place Config) ThroughputConfig {
	cfg := DefaultThroughput(place.Mode, place.Sync)
	cfg.Place, cfg.Reports, cfg.Reps, cfg.Workers, cfg.Version = place, 100, 1, 16, "test"
	return cfg
}

func throughput(t *testing.T, cfg ThroughputConfig) *ThroughputResult {
	t.Helper()
	var log bytes.Buffer
	r, err := Throughput(t.Context(), cfg, slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &log), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "=0x") {
		t.Errorf("the log shows addresses for numbers:\n%s", &log)
	}
	return r
}

// Every design counts exactly, wherever the server is, and the result has what it takes to compare them.
func TestThroughput(t *testing.T) {
	t.Parallel()
	given := natstest.Start(t)
	leavesNothing(t, given.URL())
	for _, tt := range []struct {
		place   Config
		designs []Design
		reps    int
		goals   []int // where processor time is known
	}{
		{Config{Mode: Embedded, Sync: Interval}, Designs(), 1, []int{1, 2, 3, 3, 4, 4, 5}},
		{Config{Mode: Separate, Sync: Interval}, []Design{Raw, Guyline}, 2, []int{4}},
		{Config{Mode: Embedded, Sync: Always}, []Design{Naive, CreateAsync, Guyline}, 1, []int{10, 10}},
		{Config{Mode: Given, URL: given.URL()}, []Design{FloorLimits, Guyline}, 1, []int{3}},
	} {
		place := tt.place
		t.Run(string(place.Mode+" "+Mode(place.Sync)), func(t *testing.T) {
			t.Parallel()
			cfg := small(place)
			cfg.Designs, cfg.Reps = tt.designs, tt.reps
			r := throughput(t, cfg)
			checkLaps(t, cfg, r.Laps)
			var checks []Check
			for _, d := range cfg.Designs {
				if slices.Contains([]Design{Naive, Create, CreateAsync, Guyline}, d) {
					checks = append(checks, Check{Design: d, Reports: 100, Done: 75, Duplicates: 25})
				}
			}
			if diff := cmp.Diff(checks, r.Checks); diff != "" {
				t.Error(diff)
			}
			var goals []int
			for _, g := range r.Goals {
				goals = append(goals, g.Number)
			}
			if runtime.GOOS == "linux" && !cmp.Equal(goals, tt.goals) {
				t.Errorf("goals %v, want %v", goals, tt.goals)
			}
			var again ThroughputResult
			if text, err := json.Marshal(r); err != nil {
				t.Error(err)
			} else if err := json.Unmarshal(text, &again); err != nil || !cmp.Equal(*r, again) {
				t.Errorf("%v after a round trip: %s", err, cmp.Diff(*r, again))
			}
		})
	}
}

// checkLaps checks that every design was run in every repetition, in order, and that what can be known of its lap is.
func checkLaps(t *testing.T, cfg ThroughputConfig, laps []Lap) {
	t.Helper()
	var got, want []Design
	for _, l := range laps {
		got = append(got, l.Design)
		if l.Seconds <= 0 || l.Rate <= 0 {
			t.Errorf("%+v", l)
		}
		known := runtime.GOOS == "linux" && cfg.Place.Mode != Given
		if (l.CPU != nil) != known || (l.Client != nil) != known || (l.Server != nil) != (known && cfg.Place.Mode == Separate) {
			t.Errorf("what is known of %+v", l)
		}
	}
	for rep := range cfg.Reps {
		want = append(want, cfg.order(rep+1)...)
	}
	if !cmp.Equal(got, want) {
		t.Errorf("laps %v, want %v", got, want)
	}
}

func TestThroughputWrong(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*ThroughputConfig){
		"the number of reports is 99, allowed is 100 to 1000000": func(c *ThroughputConfig) { c.Reports = 99 },
		"the number of repetitions is 0, allowed is 1 to 100":    func(c *ThroughputConfig) { c.Reps = 0 },
		"the number of workers is 1025, allowed is 1 to 1024":    func(c *ThroughputConfig) { c.Workers = 1025 },
		"no design is named": func(c *ThroughputConfig) { c.Designs = nil },
		`the designs name "fast", allowed are, each once: raw,raw-limits,floor,floor-limits,naive,create,create-async,guyline`: func(c *ThroughputConfig) {
			c.Designs = []Design{Raw, "fast"}
		},
		`the designs name "raw", allowed are, each once: raw,raw-limits,floor,floor-limits,naive,create,create-async,guyline`: func(c *ThroughputConfig) {
			c.Designs = []Design{Raw, Raw}
		},
		"no address of a given server": func(c *ThroughputConfig) { c.Place = Config{Mode: Given} },
	} {
		cfg := small(Config{Mode: Embedded, Sync: Interval})
		spoil(&cfg)
		if _, err := Throughput(t.Context(), cfg, nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Every repetition runs every design once, and they do not all begin with the same.
func TestOrder(t *testing.T) {
	t.Parallel()
	cfg := ThroughputConfig{Designs: Designs(), Reps: 5}
	firsts := map[Design]bool{}
	for rep := 1; rep <= cfg.Reps; rep++ {
		order := cfg.order(rep)
		firsts[order[0]] = true
		slices.Sort(order)
		if diff := cmp.Diff(slices.Sorted(slices.Values(Designs())), order); diff != "" {
			t.Errorf("repetition %d (-want +got):\n%s", rep, diff)
		}
	}
	if len(firsts) != cfg.Reps {
		t.Errorf("five repetitions begin with %d designs", len(firsts))
	}
}
