//go:build unix

package integration_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/guyline/guyline/chaos"
)

// A short run of the harness: one server, three workers, faults of every kind that one server can have. `make chaos` is
// the long one, on a cluster.
func TestChaos(t *testing.T) {
	t.Parallel()
	cfg := chaos.Default()
	cfg.Seed, cfg.Reports, cfg.Faults, cfg.Duration, cfg.AckWait, cfg.Patience = 5, 400, 15, 15*time.Second, 2*time.Second, 4*time.Minute
	r, err := chaos.Run(t.Context(), chaos.NewPlan(cfg), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatalf("%v; the same run again: %s", err, cfg.Command())
	}
	for _, f := range r.Findings {
		t.Errorf("%s %s %s", f.What, f.Key.Short(), f.Text)
	}
	if r.Published != cfg.Reports || r.Done+r.Dead != cfg.Reports {
		t.Errorf("published %d of %d reports; %d done and %d dead", r.Published, cfg.Reports, r.Done, r.Dead)
	}
	hits := 0
	for _, n := range r.Faults {
		hits += n
	}
	if hits == 0 || r.Died == 0 {
		t.Errorf("%d faults hit something, %d workers died", hits, r.Died)
	}
	t.Logf("%d faults %v, %d workers died, %d dead by kills (%.1f expected, %d let pass), recovery median %v, worst %v",
		hits, r.Faults, r.Died, r.Innocent, r.Expected, r.Most, r.Median, r.Worst)
	if t.Failed() {
		t.Logf("the same run again: %s", cfg.Command())
	}
}
