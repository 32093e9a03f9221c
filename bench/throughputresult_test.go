package bench

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSum(t *testing.T) {
	t.Parallel()
	lap := func(rep int, d Design, rate, cpu float64) Lap {
		return Lap{rep, d, Usage{Seconds: 1, Rate: rate, CPU: &cpu}, 0}
	}
	r := &ThroughputResult{Settings: Settings{Mode: Separate, Sync: Interval}, Laps: []Lap{
		lap(1, Naive, 10, 10), lap(1, Guyline, 20, 4), // as the machine was quiet
		lap(2, Naive, 2, 20), lap(2, Guyline, 6, 6), // and busy
		lap(3, Naive, 4, 10), lap(3, Guyline, 10, 5),
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
		if got := g.Judge(); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.reached, got, tt.want)
		}
	}
	if got := spread([]float64{4, 1, 3, 2}); got != (Range{2.5, 1, 4}) {
		t.Errorf("spread: %v", got)
	}
}

// The results of all benches have the same names for the same things in JSON, with their units.
func TestNames(t *testing.T) {
	t.Parallel()
	units := []string{"_per_second", "cpu_s_per_100k", "_ratio", "_percent", "_bytes", "_ms"}
	for _, result := range []any{ThroughputResult{}, LatencyResult{}, PublishResult{}, LedgerResult{}} {
		var all []string
		var read func(reflect.Type)
		read = func(of reflect.Type) {
			switch of.Kind() {
			case reflect.Pointer, reflect.Slice:
				read(of.Elem())
			case reflect.Struct:
				for f := range of.Fields() {
					name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
					all = append(all, name)
					read(f.Type)
				}
			}
		}
		read(reflect.TypeOf(result))
		if !slices.Contains(all, "settings") {
			t.Errorf("%T has no settings", result)
		}
		for _, name := range all {
			measures := slices.ContainsFunc([]string{"cpu_", "rss", "rate", "per_", "disk"}, func(part string) bool { return strings.Contains(name, part) })
			if measures && !slices.ContainsFunc(units, func(unit string) bool { return strings.HasSuffix("_"+name, unit) }) {
				t.Errorf("%T has %q, want one of %v at its end", result, name, units)
			}
		}
	}
}
