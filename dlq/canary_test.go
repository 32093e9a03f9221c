package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// workOff is a worker that does what it is told with each copy that is queued, until the test ends.
func (y yard) workOff(t testing.TB, do func(m stream.Message)) {
	t.Helper()
	c, err := y.queues.Worker(context.Background(), stream.Requeued)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var worker sync.WaitGroup
	t.Cleanup(func() { cancel(); worker.Wait() })
	worker.Go(func() {
		for ctx.Err() == nil {
			d, err := c.Fetch(1, jetstream.FetchContext(ctx))
			if err != nil {
				return
			}
			for m := range d.Messages() {
				meta, err := m.Metadata()
				if err != nil {
					t.Error(err)
					return
				}
				do(stream.Read(stream.Ref{Stream: stream.Requeued, Sequence: meta.Sequence.Stream}, m.Subject(), m.Headers(), m.Data(), meta.Timestamp))
			}
		}
	})
}

// lands lets a queued copy land.
func (y yard) lands(t testing.TB, m stream.Message) {
	_, err := y.ledger.Commit(context.Background(), keyvalue.Entry{State: keyvalue.Done, SiteID: m.Event.SiteID, SourceURI: m.Event.SourceURI})
	if err := errors.Join(err, y.queues.Delete(context.Background(), m.Ref)); err != nil {
		t.Error(err)
	}
}

// fails lets a queued copy die again.
func (y yard) fails(t testing.TB, m stream.Message, code report.Code) {
	l := letterOf(m, "again")
	l.Code = code
	current, err := y.Current(context.Background(), l.Site, l.Key)
	if ignore(err, ErrNotFound) == nil {
		_, err = y.Put(context.Background(), l, current.Sequence)
	}
	if errors.Is(err, ErrConflict) { // its replay has deleted the old letter meanwhile
		_, err = y.Put(context.Background(), l, 0)
	}
	if err := errors.Join(err, y.RecordDeath(context.Background(), l), y.queues.Delete(context.Background(), m.Ref)); err != nil {
		t.Error(err)
	}
}

// Most of the canary lands: the others follow, in their order.
func TestCanaryLands(t *testing.T) {
	t.Parallel()
	y, srv := newYard(t)
	const n = 40
	y.dieMany(t, n)
	var order []report.Key
	worker := enter(t, srv)
	worker.workOff(t, func(m stream.Message) {
		if order = append(order, m.Key); len(order) == 5 { // of a canary of 5
			worker.fails(t, m, report.CodeTimeout)
		} else {
			worker.lands(t, m)
		}
	})
	tally, err := y.ReplayAll(t.Context(), y.plan(t, PlanOptions{}).Send, Bulk{By: operator, Canary: 5})
	want := Tally{ByOutcome: map[Outcome]int{Replayed: n}, Sent: n, CanaryLanded: 4, CanaryDied: 1}
	if err != nil || !cmp.Equal(tally, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, tally))
	}
	natstest.Eventually(t, "all to be worked", func() bool { return len(y.queued(t)) == 0 })
	if left := collect(t, y.List(t.Context(), Filter{})); len(left) != 1 || left[0].Replays != 1 {
		t.Errorf("left: %+v", left)
	}
}

// Half of the canary is not most of it: nothing else is sent, and the tally says what they died of.
func TestCanaryStops(t *testing.T) {
	t.Parallel()
	y, srv := newYard(t)
	y.dieMany(t, 20)
	worker, n := enter(t, srv), 0
	worker.workOff(t, func(m stream.Message) {
		switch n++; {
		case n%2 == 0:
			worker.lands(t, m)
		case n == 1:
			worker.fails(t, m, report.CodeTimeout)
		default:
			worker.fails(t, m, report.CodeNotFound)
		}
	})
	tally, err := y.ReplayAll(t.Context(), y.plan(t, PlanOptions{}).Send, Bulk{By: operator, Canary: 6})
	want := Tally{
		ByOutcome: map[Outcome]int{Replayed: 6}, Sent: 6, CanaryLanded: 3, CanaryDied: 3,
		Stopped: "most of the canary did not land: 3 of 6 died again (2 x not-found, 1 x timeout)",
	}
	if err != nil || !cmp.Equal(tally, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, tally))
	}
	if left := len(collect(t, y.List(t.Context(), Filter{}))); left != 17 {
		t.Errorf("%d letters are left, want 14 untouched and 3 new", left)
	}
}

// A canary whose letters have left is sent from others; one whose reports are given up has not landed.
func TestCanaryOfWhatHasChanged(t *testing.T) {
	t.Parallel()
	y, srv := newYard(t)
	letters := y.dieMany(t, 10)
	p := y.plan(t, PlanOptions{})
	for _, c := range p.Send[:4] {
		if o, err := y.Discard(t.Context(), c.Sequence, operator); o != Discarded || err != nil {
			t.Fatal(o, err)
		}
	}
	other := enter(t, srv)
	other.workOff(t, func(m stream.Message) { // it dies again, and is given up
		other.fails(t, m, report.CodeTimeout)
		l, err := other.Current(context.Background(), m.Site, m.Key)
		if err == nil {
			_, err = other.Discard(context.Background(), l.Sequence, operator)
		}
		if err != nil {
			t.Error(err)
		}
	})
	tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator, Canary: 3})
	if err != nil || tally.Sent != 3 || tally.ByOutcome[Gone] != 4 || tally.CanaryLanded != 0 || tally.CanaryDied != 3 ||
		!strings.HasPrefix(tally.Stopped, "most of the canary did not land: 3 of 3 died again (") {
		t.Errorf("%v, %+v", err, tally)
	}
	natstest.Eventually(t, "the last of them to be given up", func() bool {
		return len(collect(t, y.List(t.Context(), Filter{}))) == len(letters)-4-3
	})

	tally, err = y.ReplayAll(t.Context(), p.Send[:4], Bulk{By: operator, Canary: 3})
	if want := (Tally{ByOutcome: map[Outcome]int{Gone: 4}}); err != nil || !cmp.Equal(tally, want) {
		t.Errorf("when none of it is sent: %v %s", err, cmp.Diff(want, tally))
	}
}

// Nobody works the queue: the canary waits until the run is interrupted.
func TestCanaryInterrupted(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	letters := y.dieMany(t, 5)
	p := y.plan(t, PlanOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tally, err := y.ReplayAll(ctx, p.Send, Bulk{By: operator, Canary: 2, Progress: func(done, _ int) {
		if done == 2 {
			time.AfterFunc(3*firstLook, cancel)
		}
	}})
	if want := (Tally{ByOutcome: map[Outcome]int{Replayed: 2}, Sent: 2}); !errors.Is(err, context.Canceled) || !cmp.Equal(tally, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, tally))
	}
	first := slices.IndexFunc(letters, func(l Letter) bool { return l.Key == p.Send[0].Key })
	y.trailOf(t, letters[first], audit.Death, audit.Replay)
}

// Nobody works the queue: patience ends. The wait for the pace, which is longer, does not count.
func TestCanaryPatience(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	y.dieMany(t, 5)
	tally, err := y.ReplayAll(t.Context(), y.plan(t, PlanOptions{}).Send, Bulk{By: operator, Canary: 3, Rate: 2, Patience: 3 * firstLook})
	if want := (Tally{ByOutcome: map[Outcome]int{Replayed: 3}, Sent: 3}); !errors.Is(err, ErrSlow) || !cmp.Equal(tally, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, tally))
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	of := func(kinds string) (out []Candidate) {
		for i, k := range kinds {
			out = append(out, Candidate{Sequence: uint64(i), Upstream: string(k), Landed: k == 'L'})
		}
		return out
	}
	for _, tt := range []struct {
		send        string
		n           int
		taken, rest string
	}{
		{"", 3, "[]", "[]"},
		{"aaaa", 2, "[0 1]", "[2 3]"},
		{"aaab", 2, "[0 3]", "[1 2]"},
		{"aaabbbc", 5, "[0 1 3 4 6]", "[2 5]"},
		{"abc", 2, "[0 1]", "[2]"},
		{"LaLb", 9, "[1 3]", "[0 2]"},
		{"LL", 1, "[]", "[0 1]"},
	} {
		taken, rest := spread(of(tt.send), tt.n)
		if a, b := sequences(taken), sequences(rest); a != tt.taken || b != tt.rest {
			t.Errorf("%d of %q: took %s and left %s, want %s and %s", tt.n, tt.send, a, b, tt.taken, tt.rest)
		}
	}
}

func sequences(candidates []Candidate) string {
	out := []uint64{}
	for _, c := range candidates {
		out = append(out, c.Sequence)
	}
	return fmt.Sprint(out)
}
