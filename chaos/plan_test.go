package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

// A seed is a promise: the same plan each time, and another seed is another plan.
func TestPlanFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Seed, cfg.Servers, cfg.Faults = 7, 3, 100
	p := NewPlan(cfg)
	all := cmp.AllowUnexported(Plan{}, send{})
	if diff := cmp.Diff(p, NewPlan(cfg), all); diff != "" {
		t.Errorf("two plans of one seed differ:\n%s", diff)
	}
	cfg.Seed++
	if cmp.Equal(p.Faults, NewPlan(cfg).Faults) || cmp.Equal(p.sends, NewPlan(cfg).sends, all) {
		t.Error("two seeds have the same plan")
	}
}

// Every kind of fault and fate occurs in a run of some length, and each at its time.
func TestPlanHasEverything(t *testing.T) {
	t.Parallel()
	theirs := Default()
	theirs.Servers, theirs.URLs = 3, []string{"nats://a:1", "nats://b:2"}
	three := Default()
	three.Servers = 3
	for _, cfg := range []Config{Default(), three, theirs} {
		cfg.Faults = len(deck(cfg))
		p := NewPlan(cfg)
		dealt, fates := map[card]int{}, map[Fate]int{}
		last := time.Duration(0)
		for _, f := range p.Faults {
			dealt[card{f.Kind, f.Target.Stream, f.Target.Consumer}]++
			if f.At < last || f.At > cfg.Duration || f.Target.Number >= max(cfg.Servers, cfg.Workers) {
				t.Errorf("out of its time or place: %s", f)
			}
			last = f.At
		}
		want := map[card]int{}
		for _, c := range deck(cfg) {
			want[c]++
		}
		if diff := cmp.Diff(want, dealt, cmp.AllowUnexported(card{})); diff != "" {
			t.Errorf("%s (-deck +dealt):\n%s", cfg.Command(), diff)
		}
		keys := map[report.Key]bool{}
		for _, r := range p.Reports {
			fates[r.Fate]++
			keys[r.Key] = true
			if e, err := report.Decode(r.Body); (err == nil) == (r.Fate == Undecodable) || err == nil && e.Key() != r.Key {
				t.Errorf("%s: %v", r.Fate, err)
			}
		}
		if len(fates) != 6 || len(keys) != cfg.Reports || len(p.sends) != cfg.Reports+2*fates[Duplicated] {
			t.Errorf("%d fates, %d keys, %d publications", len(fates), len(keys), len(p.sends))
		}
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		k, n int
		p    float64
		want float64
	}{{0, 4, 0.3, 1}, {4, 4, 0.5, 0.0625}, {3, 4, 0.5, 0.3125}, {1, 2, 0.1, 0.19}, {1, 4, 0, 0}} {
		if got := atLeast(tt.k, tt.n, tt.p); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("atLeast(%d, %d, %v) = %v, want %v", tt.k, tt.n, tt.p, got, tt.want)
		}
	}
}

// Runs are counted over processes: each sees its own number.
func TestCountRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := makeRuns(dir); err != nil {
		t.Fatal(err)
	}
	key := report.NewKey("TWR-1", "a.pdf")
	for want := 1; want <= 3; want++ {
		if run, err := countRun(dir, key); err != nil || run != want {
			t.Errorf("run %d, %v; want %d", run, err, want)
		}
	}
	if n := len(runsOf(dir, key)); n != 3 {
		t.Errorf("%d runs read, want 3", n)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"servers":  func(c *Config) { c.Servers = 2 },
		"workers":  func(c *Config) { c.Workers = 0 },
		"slots":    func(c *Config) { c.Slots = 0 },
		"reports":  func(c *Config) { c.Reports = 1 },
		"faults":   func(c *Config) { c.Faults = -1 },
		"duration": func(c *Config) { c.Duration = 0 },
		"ack wait": func(c *Config) { c.AckWait = 0 },
		"patience": func(c *Config) { c.Patience = 0 },
		"address":  func(c *Config) { c.URLs = []string{"tls://a:4222"} },
	} {
		cfg := Default()
		if change(&cfg); cfg.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// What is measured between settled reports.
func TestMeasures(t *testing.T) {
	t.Parallel()
	zero := time.Unix(1_800_000_000, 0)
	at := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, zero.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	w := &workers{settled: at(10, 12, 20, 60)}
	if got := w.standstill(at(15)[0]); got != 8*time.Second {
		t.Errorf("standstill %v, want 8s: what began before counts, and no more", got)
	}
	for _, tt := range []struct {
		moment int
		want   time.Duration
		ok     bool
	}{{5, 5 * time.Second, true}, {12, 0, true}, {13, 7 * time.Second, true}, {61, 0, false}} {
		if got, ok := w.after(at(tt.moment)[0]); got != tt.want || ok != tt.ok {
			t.Errorf("after %d: %v, %v; want %v, %v", tt.moment, got, ok, tt.want, tt.ok)
		}
	}
	in := &injector{begun: at(10, 30)}
	if in.calm(heal{at: at(20)[0]}, 11*time.Second) || !in.calm(heal{at: at(20)[0]}, 9*time.Second) {
		t.Error("a recovery is calm if no fault begins in it")
	}
	r := &Result{Recovery: []time.Duration{3, 1, 2}}
	if r.recovered(); r.Median != 2 || r.Worst != 3 {
		t.Errorf("median %d, worst %d", r.Median, r.Worst)
	}
}
