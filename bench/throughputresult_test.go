package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSum(t *testing.T) {
	t.Parallel()
	n := func(x float64) *float64 { return &x }
	r := &ThroughputResult{Settings: Settings{Mode: Separate, Sync: Interval}, Laps: []Lap{
		{1, Naive, 1, 10, n(10), nil, nil, 0}, {1, Guyline, 1, 20, n(4), nil, nil, 0}, // as the machine was quiet
		{2, Naive, 1, 2, n(20), nil, nil, 0}, {2, Guyline, 1, 6, n(6), nil, nil, 0}, // and busy
		{3, Naive, 1, 4, n(10), nil, nil, 0}, {3, Guyline, 1, 10, n(5), nil, nil, 0},
	}}
	r.sum()
	if diff := cmp.Diff([]Ratio{{Guyline, Naive, Range{2.5, 2, 3}, &Range{0.4, 0.3, 0.5}}}, r.Ratios); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Goal{
		{1, "rate / naive", Range{2.5, 2, 3}, 2.5, 3, false, Accepted},
		{2, "CPU / naive", Range{0.4, 0.3, 0.5}, 0.45, 0.36, true, Accepted},
	}, r.Goals); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		reached float64
		atMost  bool
		want    Verdict
	}{{2.9, false, Missed}, {3, false, Accepted}, {5, false, WorldClass}, {3, true, Accepted}, {5, true, Missed}, {2, true, WorldClass}} {
		g := Goal{Reached: Range{Median: tt.reached}, Accept: 3, WorldClass: 4, AtMost: tt.atMost}
		if tt.atMost {
			g.WorldClass = 2
		}
		if got := g.judge(); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.reached, got, tt.want)
		}
	}
	if got := spread([]float64{4, 1, 3, 2}); got != (Range{2.5, 1, 4}) {
		t.Errorf("spread: %v", got)
	}
}
