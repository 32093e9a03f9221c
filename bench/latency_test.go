package bench

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/stream"
)

// tiny is a run that is over soon.
func tiny(place Config, parts ...Part) LatencyConfig {
	cfg := DefaultLatency(place.Mode, place.Sync)
	cfg.Place, cfg.Parts, cfg.Version, cfg.Workers = place, parts, "test", 16
	cfg.Samples, cfg.Reports, cfg.Load = 2, 100, 50*time.Millisecond
	cfg.Outstanding, cfg.Delays = []int{30}, []time.Duration{20 * time.Millisecond, 30 * time.Millisecond}
	cfg.Held, cfg.Reps = 40, 2
	return cfg
}

// Wherever the server is, each part counts all its reports, and nothing is left on a given server.
func TestLatency(t *testing.T) {
	t.Parallel()
	given := natstest.Start(t)
	leavesNothing(t, given.URL())
	for _, place := range []Config{{Mode: Embedded, Sync: Always}, {Mode: Separate, Sync: Interval}, {Mode: Given, URL: given.URL()}} {
		t.Run(string(place.Mode), func(t *testing.T) {
			t.Parallel()
			r, err := Latency(t.Context(), tiny(place, Single, Retries, Held), slog.New(slog.NewTextHandler(t.Output(), nil)))
			if err != nil {
				t.Fatal(err)
			}
			s := r.Single
			if s == nil || s.Idle.Count != 2 || s.Stored.Count != 2 || s.Half.Count < 1 || s.Max <= 0 || s.Load <= 0 {
				t.Fatalf("single reports: %+v", s)
			}
			for _, p := range []Percentiles{s.Idle, s.Half} {
				if p.P50 <= 0 || p.P99 < p.P50 || p.Most < p.P99 {
					t.Errorf("%+v", p)
				}
			}
			if len(r.Retries) != 2 {
				t.Fatalf("retries: %+v", r.Retries)
			}
			for i, row := range r.Retries {
				if row.Outstanding != 30 || row.Late.Count != 30 || row.Early != 0 || row.Most < 1 || row.Most > 30 || row.Delay != float64(20+10*i) || row.Late.P50 <= 0 {
					t.Errorf("retries: %+v", row)
				}
			}
			h := r.Held
			if h == nil || h.Held != 40 || h.Reports != 100 || h.With.Min <= 0 || h.Without.Min <= 0 || h.Ratio.Median <= 0 {
				t.Errorf("held: %+v", h)
			}
			if len(r.Goals) != 1 || r.Goals[0].What != "early deliveries" || r.Goals[0].Verdict != WorldClass { // the others are for other numbers
				t.Errorf("goals: %+v", r.Goals)
			}
			if r.Settings.Server == "" || r.Settings.Mode != place.Mode || r.Settings.Sync != place.Sync || r.Settings.Workers != 16 {
				t.Errorf("%+v", r.Settings)
			}
		})
	}
}

// Held reports wait on the server while the backlog is worked: with no worker, the consumer counts every one of them.
func TestHold(t *testing.T) {
	t.Parallel()
	cfg := tiny(Config{Mode: Embedded, Sync: Interval}, Held)
	b, err := cfg.openBed(t.Context(), 40, newLatencyResult(cfg))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	b.cfg.Backoff.Max = heldFor
	if err := b.hold(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	c, err := b.worker.Consumer(t.Context(), stream.Reports, stream.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	if info := c.CachedInfo(); info.NumAckPending != 40 || info.NumPending != 0 {
		t.Errorf("%d are delivered and wait, %d are not delivered, want 40 and 0", info.NumAckPending, info.NumPending)
	}
	if max := b.cfg.Queues.MaxAckPending; max < 40+cfg.Workers {
		t.Errorf("MaxAckPending %d", max)
	}
}

func TestLatencyStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	for _, part := range []Part{Single, Retries, Held} {
		if r, err := Latency(ctx, tiny(Config{Mode: Embedded, Sync: Interval}, part), slog.New(slog.DiscardHandler)); !errors.Is(err, stopped) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v, %v", part, r, err)
		}
	}
}

func TestWrongLatency(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*LatencyConfig){
		"the number of workers is 0, allowed is 1 to 1024":                       func(c *LatencyConfig) { c.Workers = 0 },
		"the number of samples is 0, allowed is 1 to 10000":                      func(c *LatencyConfig) { c.Samples = 0 },
		"the number of reports is 99, allowed is 100 to 1000000":                 func(c *LatencyConfig) { c.Reports = 99 },
		"the number of outstanding reports is 0, allowed is 1 to 100000":         func(c *LatencyConfig) { c.Outstanding = []int{30, 0} },
		"the number of held reports is 100001, allowed is 1 to 100000":           func(c *LatencyConfig) { c.Held = 100_001 },
		"the number of repetitions is 0, allowed is 1 to 100":                    func(c *LatencyConfig) { c.Reps = 0 },
		"the number of starts is 101, allowed is 1 to 100":                       func(c *LatencyConfig) { c.Starts = 101 },
		"a time is 6m0s, allowed is 1ms to 5m":                                   func(c *LatencyConfig) { c.Delays = []time.Duration{6 * time.Minute} },
		"a time is 0s, allowed is 1ms to 5m":                                     func(c *LatencyConfig) { c.Idle = 0 },
		"nothing to measure is named":                                            func(c *LatencyConfig) { c.Parts = nil },
		`the parts name "idle", allowed are, each once, on this server: single,`: func(c *LatencyConfig) { c.Parts = []Part{Idle} },
		`the parts name "held", allowed are, each once`:                          func(c *LatencyConfig) { c.Parts = []Part{Held, Held} },
		`the sync is "", allowed are always and interval`:                        func(c *LatencyConfig) { c.Place.Sync = "" },
	} {
		cfg := tiny(Config{Mode: Separate, Sync: Always}, Single)
		change(&cfg)
		if r, err := Latency(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %+v, want %s", err, r, want)
		}
	}
	for _, mode := range []Mode{Embedded, Separate} {
		if err := DefaultLatency(mode, Always).Validate(); err != nil {
			t.Error(mode, err)
		}
	}
}

// A goal is judged where it was measured with its own numbers; of several delays the worst counts.
func TestLatencyGoals(t *testing.T) {
	t.Parallel()
	late := func(n int, p99 float64, early int) RetryResult {
		return RetryResult{Outstanding: n, Late: Percentiles{P99: p99}, Early: early}
	}
	one := func(x float64) Range { return Range{x, x, x} }
	r := LatencyResult{
		Retries: []RetryResult{late(1000, 12, 0), late(1000, 24, 0), late(20_000, 300, 1)},
		Held:    &HeldResult{Held: 20_000, Ratio: Range{0.96, 0.5, 2}},
		Startup: []StartResult{{What: "a", Done: one(50)}, {What: "b", Done: one(500)}},
		Idle:    &IdleResult{CPU: 0.61, RSS: 20 << 20},
	}
	r.judge()
	var got []string
	for _, g := range r.Goals {
		got = append(got, g.What+": "+string(g.Verdict))
	}
	want := []string{
		"ms late at p99, 1000 outstanding, of the worst delay: accepted", "early deliveries: missed", "rate with 20000 held / none: accepted",
		"ms to the first report done, a: world-class", "% of a CPU when idle: missed", "MiB resident when idle: world-class",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := []int{r.Goals[0].Number, r.Goals[2].Number, r.Goals[3].Number}; !slices.Equal(n, []int{11, 12, 13}) {
		t.Error(n)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(i+1)*time.Millisecond)
	}
	if got, want := percentiles(times), (Percentiles{Count: 200, P50: 100, P99: 198, Most: 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := percentiles(times[:1]), (Percentiles{1, 1, 1, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := percentiles(nil); got != (Percentiles{}) {
		t.Errorf("%+v", got)
	}
}

// The lines that a start is timed by.
func TestSteps(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 2, 3, 4, 5_000_000, time.UTC)
	for line, want := range map[string]Step{
		`{"time":"2026-12-01T02:03:04.005Z","level":"INFO","msg":"working","workers":8}`: {StepReady, at},
		`{"time":"2026-12-01T02:03:04.005Z","level":"INFO","msg":"report_succeeded"}`:    {StepDone, at},
		`{"time":"2026-12-01T02:03:04.005Z","msg":"report_retry"}`:                       {"", at},
		`nothing`: {},
	} {
		if got, ok := stepOfLog([]byte(line)); got != want || ok != (want.Step != "") {
			t.Errorf("%s: %+v %v", line, got, ok)
		}
	}
	if pdf := smallPDF(); !bytes.HasPrefix(pdf, []byte("%PDF-1.4")) {
		t.Errorf("%s", pdf)
	}
}
