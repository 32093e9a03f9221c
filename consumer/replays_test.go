package consumer

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
)

func TestRest(t *testing.T) {
	t.Parallel()
	for replays, want := range map[int]time.Duration{0: 0, 1: 20 * time.Minute, 2: 40 * time.Minute, 5: 320 * time.Minute, 1000: 10 * time.Minute << 16} {
		if got := rest(replays); got != want {
			t.Errorf("after %d replays a report rests for %v, want %v", replays, got, want)
		}
	}
}

// How long a letter rests is counted by the server's clock, whatever the clock of the worker that wrote it says. Its own time
// only spares a look at letters that have not rested for sure.
func TestRestedByTheServersClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"TWR-1": {poison}})
	w.publish("TWR-1")
	k := w.start()
	w.await("TWR-1", Buried)
	stored := w.diedAt(w.letter("TWR-1").Sequence)
	for name, off := range map[string]time.Duration{"right": 0, "an hour ahead": time.Hour, "an hour behind": -time.Hour, "in another century": 1e6 * time.Hour} {
		l := dlq.Candidate{Sequence: w.letter("TWR-1").Sequence, Replays: 1, FailedAt: stored.Add(off)}
		for after, want := range map[time.Duration]bool{0: false, 19 * time.Minute: false, 20 * time.Minute: true} {
			got, err := k.rested(t.Context(), l, stored.Add(after))
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("a clock that is %s, %v after death: rested %v, want %v", name, after, got, want)
			}
			if want && off <= 0 && !k.mayHaveRested(l, stored.Add(after)) {
				t.Errorf("a clock that is %s, %v after death: it is not looked at", name, after)
			}
		}
		if !k.mayHaveRested(l, stored.Add(off+20*time.Minute)) {
			t.Errorf("a clock that is %s: it is never looked at", name)
		}
	}
	if gone, err := k.rested(t.Context(), dlq.Candidate{Sequence: 4711, Replays: 1}, stored.Add(time.Hour)); gone || err != nil {
		t.Errorf("a letter that has left: rested %v, %v", gone, err)
	}
	w.check(invariant.Tally{Dead: 1})
}

// An upstream is down overnight, and has few letters. The schedule's canaries do not spend the last replay of any: when it answers again,
// that one is still there. If nobody sees it answer, it is spent after days.
func TestTheLastReplayOutlivesTheNight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"TWR-1": {poison}})
	w.publish("TWR-1")
	w.start()
	w.await("TWR-1", Buried)
	letter := w.letter("TWR-1")
	stored := w.diedAt(letter.Sequence)
	k := w.open()
	k.upstreams.failed(letter.Upstream)
	l := dlq.Candidate{Sequence: letter.Sequence, Upstream: letter.Upstream}
	rested := func(after time.Duration) bool {
		l.FailedAt = stored
		ok, err := k.rested(t.Context(), l, stored.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		if ok && !k.mayHaveRested(l, stored.Add(after)) {
			t.Errorf("%v after death: it has rested and is not looked at", after)
		}
		return ok
	}
	died := 0
	for hour := 1; hour <= 14; hour++ { // a turn of the schedule each; the source is down, so that what is replayed dies
		if rested(time.Duration(hour-died) * time.Hour) {
			l.Replays++
			died = hour
		}
	}
	if want := k.cfg.ReplayMax - 1; l.Replays != want {
		t.Errorf("replayed %d times in the night, want %d", l.Replays, want)
	}
	if !rested(lastRest) {
		t.Errorf("never replayed again without news of the source")
	}
	k.upstreams.answered(letter.Upstream)
	if after := time.Duration(14-died) * time.Hour; !rested(after) {
		t.Errorf("not replayed %v after its death although the source answers", after)
	}
	w.check(invariant.Tally{Dead: 1})
}

// diedAt is when the server stored a letter.
func (w *world) diedAt(seq uint64) time.Time {
	w.Helper()
	s, err := w.js.Stream(w.Context(), dlq.Stream)
	if err != nil {
		w.Fatal(err)
	}
	var m *jetstream.RawStreamMsg
	if m, err = s.GetMsg(w.Context(), seq); err != nil {
		w.Fatal(err)
	}
	return m.Time
}

func TestCanaryFirst(t *testing.T) {
	t.Parallel()
	letter := func(key string, replays int) dlq.Candidate {
		return dlq.Candidate{Key: report.Key(key), Replays: replays}
	}
	landed := letter("landed", 0)
	landed.Landed = true
	for name, tt := range map[string]struct{ letters, want []dlq.Candidate }{
		"none":       {nil, nil},
		"fresh ones": {[]dlq.Candidate{letter("a", 0), letter("b", 0)}, []dlq.Candidate{letter("a", 0), letter("b", 0)}},
		"the urgent one was replayed": {
			[]dlq.Candidate{letter("a", 2), letter("b", 1), landed, letter("c", 0), letter("d", 0)},
			[]dlq.Candidate{letter("c", 0), letter("a", 2), letter("b", 1), letter("d", 0)},
		},
		"all were": {[]dlq.Candidate{letter("a", 1), letter("b", 1)}, []dlq.Candidate{letter("a", 1), letter("b", 1)}},
	} {
		before := len(tt.letters)
		if diff := cmp.Diff(tt.want, canaryFirst(tt.letters)); diff != "" || len(tt.letters) != before {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReplaySettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"defaults":               {func(*Config) {}, true},
		"off, whatever the rate": {func(c *Config) { c.ReplayEvery, c.ReplayRate = 0, 0 }, true},
		"below zero":             {func(c *Config) { c.ReplayEvery = -time.Hour }, false},
		"too often":              {func(c *Config) { c.ReplayEvery = time.Millisecond }, false},
		"too seldom":             {func(c *Config) { c.ReplayEvery = 25 * time.Hour }, false},
		"no rate":                {func(c *Config) { c.ReplayRate = 0 }, false},
		"not a rate":             {func(c *Config) { c.ReplayRate = math.NaN() }, false},
		"every class":            {func(c *Config) { c.ReplayClasses = append(c.ReplayClasses, report.ClassPoison) }, true},
		"no class of ours":       {func(c *Config) { c.ReplayClasses = []report.Class{"unlucky"} }, false},
	} {
		cfg := DefaultConfig()
		tt.change(&cfg)
		if err := cfg.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
