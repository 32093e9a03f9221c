package bench

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/stream"
)

// small is a run of every design that is over soon.
func small(place Config) ThroughputConfig {
	cfg := DefaultThroughput(place.Mode, place.Sync)
	cfg.Place, cfg.Reports, cfg.Reps, cfg.Workers, cfg.Version = place, 100, 1, 16, "test"
	return cfg
}

func throughput(t *testing.T, cfg ThroughputConfig) *ThroughputResult {
	t.Helper()
	r, err := Throughput(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func streams(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	l := js.StreamNames(t.Context())
	for name := range l.Name() {
		names = append(names, name)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// Every design counts exactly, wherever the server is, and the result has what it takes to compare them.
func TestThroughput(t *testing.T) {
	t.Parallel()
	given := natstest.Start(t)
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
			var laps []string
			for _, l := range r.Laps {
				laps = append(laps, string(l.Design))
				if l.Seconds <= 0 || l.Rate <= 0 {
					t.Errorf("%+v", l)
				}
				known := runtime.GOOS == "linux"
				if (l.CPU != nil) != (known && place.Mode != Given) || (l.Client != nil) != (known && place.Mode != Given) ||
					(l.Server != nil) != (known && place.Mode == Separate) {
					t.Errorf("what is known of %+v", l)
				}
			}
			var want []string
			for rep := range tt.reps {
				want = append(want, strings.Split(join(cfg.order(rep+1)), ",")...)
			}
			if !cmp.Equal(laps, want) {
				t.Errorf("laps %v, want %v", laps, want)
			}
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
	t.Cleanup(func() { // when the parallel tests have ended
		nc, err := nats.Connect(given.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		names := js.StreamNames(context.Background())
		for name := range names.Name() {
			t.Errorf("stream %s is left on the given server", name)
		}
	})
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

// A given server that somebody uses is not touched.
func TestGivenInUse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{stream.Reports, ledgerStream, lockStream} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			js := srv.JetStream(t)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"theirs"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), "theirs", nil); err != nil {
				t.Fatal(err)
			}
			_, err := Throughput(t.Context(), small(Config{Mode: Given, URL: srv.URL()}), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), "stream "+name+" exists") {
				t.Errorf("%v", err)
			}
			s, err := js.Stream(t.Context(), name)
			if err != nil || s.CachedInfo().State.Msgs != 1 {
				t.Errorf("their stream: %v, %v", s, err)
			}
			if left := streams(t, js); len(left) != 1 {
				t.Errorf("streams %v", left)
			}
		})
	}
}

// What somebody else publishes while a bench runs is not deleted, and neither is a stream that was made anew.
func TestClaimLeaves(t *testing.T) {
	t.Parallel()
	cfg := small(Config{}).consumerConfig().Queues
	js := natstest.Start(t).JetStream(t)
	c, err := stake(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stake(t.Context(), js, cfg); err == nil {
		t.Error("two benches on one server")
	}
	all := len(streams(t, js))
	if _, err := js.PublishMsg(t.Context(), backlog(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.leave(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "somebody else has published to REPORTS") {
		t.Errorf("%v", err)
	}
	if left := streams(t, js); len(left) != all {
		t.Errorf("%v are left of %d", left, all)
	}
	if _, err := js.Publish(t.Context(), "$KV.reports_sites.site.TWR-1", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := c.leave(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "somebody else has published to KV_reports_sites") {
		t.Errorf("%v", err)
	}
	if left := streams(t, js); len(left) != all {
		t.Errorf("%v are left of %d", left, all)
	}
	if err := js.DeleteStream(t.Context(), sitesStream); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(js.DeleteStream(t.Context(), ledgerStream), stakeOver(t, js)); err != nil {
		t.Fatal(err)
	}
	if err := c.leave(t.Context(), 1); err == nil || !strings.Contains(err.Error(), ledgerStream+" was made anew") {
		t.Errorf("%v", err)
	}
	if left := streams(t, js); !cmp.Equal(left, []string{ledgerStream}) {
		t.Errorf("%v are left, want theirs", left)
	}
}

// stakeOver makes the ledger's stream, as somebody else might.
func stakeOver(t *testing.T, js jetstream.JetStream) error {
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: ledgerStream, Subjects: []string{"theirs"}})
	return err
}

// A lap that has left behind something else than it must does not count.
func TestMiscount(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if _, err := stake(t.Context(), js, small(Config{}).consumerConfig().Queues); err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(t.Context(), stream.Reports, stream.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	deliver := func() jetstream.Msg {
		t.Helper()
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	l := &lap{how: designs[Naive], js: js, reports: 4, unique: 3, all: make(chan struct{})}
	for i := range 4 {
		if _, err := js.PublishMsg(t.Context(), backlog(i, 0)); err != nil {
			t.Fatal(err)
		}
		deliver()
	}
	for range 3 {
		l.settle(false)
	}
	want := func(part string) {
		t.Helper()
		if err := l.check(t.Context()); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %s", err, part)
		}
	}
	want("0 duplicates were counted of 4 reports, want 1, and up to 0 that were delivered again")
	l.settle(true)
	want("0 messages are in " + ledgerStream + ", want 3")
	for _, key := range []string{"a", "b", "c"} {
		if _, err := js.Publish(t.Context(), ledgerSubject+"site."+key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := js.Publish(t.Context(), ledgerSubject+"site.d", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	want("4 messages are in " + ledgerStream + ", want 3")
	l.unique, l.reports = 4, 5 // with one more, which is delivered twice
	if _, err := js.PublishMsg(t.Context(), backlog(4, 0)); err != nil {
		t.Fatal(err)
	}
	if err := deliver().Nak(); err != nil {
		t.Fatal(err)
	}
	deliver()
	l.settled.Add(1)
	if err := l.check(t.Context()); err != nil || l.redelivered != 1 {
		t.Errorf("%v, %d redelivered", err, l.redelivered)
	}
	l.unique = 5 // its duplicate may be of what came again, but the ledger tells
	want("4 messages are in " + ledgerStream + ", want 5")
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	ids, keys := map[string]bool{}, map[string]int{}
	for i := range 400 {
		m := backlog(i, 4)
		ids[m.Header.Get(jetstream.MsgIDHeader)] = true
		e, err := read(m.Data)
		if err != nil || e.Validate() != nil {
			t.Fatalf("%s: %v, %v", m.Data, err, e.Validate())
		}
		keys[string(e.Key())]++
	}
	if len(ids) != 400 || len(keys) != 300 {
		t.Errorf("%d ids and %d reports of 400 messages", len(ids), len(keys))
	}
}

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
