package dlq

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/stream"
)

// act is a replay or a discard.
type act = func(context.Context, uint64, By) (Outcome, error)

// interrupt lets an act lose its connection after a step, and returns another process at the same yard.
func interrupt(t testing.TB, y yard, srv *natstest.Server, step string, restart bool, act func(*Queue) act, l Letter) yard {
	t.Helper()
	var steps []string
	y.step = func(s string) {
		if steps = append(steps, s); s == step {
			y.js.Conn().Close()
		}
	}
	if outcome, err := act(y.Queue)(t.Context(), l.Sequence, operator); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Fatalf("cut off after %q: got %q, %v", step, outcome, err)
	}
	if steps[len(steps)-1] != step {
		t.Fatalf("it went on after %q: %q", step, steps)
	}
	if restart {
		srv.Restart(t)
	}
	return enter(t, srv)
}

// A replay that is cut off after any of its steps is repeated, before or after a restart of the server.
func TestReplayCutOff(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"burial", "audit", "requeue"} {
		for _, restart := range []bool{false, true} {
			t.Run(step+map[bool]string{true: ", restart"}[restart], func(t *testing.T) {
				t.Parallel()
				y, srv := newYard(t)
				shortWindow(t, y)
				m := y.publish(t, "a.pdf")
				l := y.put(t, letterOf(m, "unparseable")) // its burial was cut short, too
				y = interrupt(t, y, srv, step, restart, func(q *Queue) act { return q.Replay }, l)

				if got, err := y.At(t.Context(), l.Sequence); err != nil || !cmp.Equal(got, l) {
					t.Fatalf("the letter: %v %s", err, cmp.Diff(l, got))
				}
				shortWindow(t, y)() // so that what is recorded again is stored again
				if n := len(y.queued(t)); n > 1 || (n == 1) != (step == "requeue") {
					t.Fatalf("%d copies are queued", n)
				}
				y.replay(t, l, Replayed)
				y.replay(t, l, Gone)
				y.gone(t)
				if queued := y.queued(t); len(queued) != 1 || queued[0].Carried.ReplayOf != l.Sequence || queued[0].Carried.Replays != 1 {
					t.Errorf("queued: %+v", queued)
				}
				y.trailOf(t, l, audit.Death, audit.Replay)
			})
		}
	}
}

// The copy of a replay that was cut off is worked before the replay is repeated.
func TestReplayCutOffThenWorked(t *testing.T) {
	t.Parallel()
	for what, work := range map[string]func(testing.TB, yard, stream.Message) (Outcome, []audit.Kind){
		"it lands": func(t testing.TB, y yard, m stream.Message) (Outcome, []audit.Kind) {
			_, err := y.ledger.Commit(t.Context(), keyvalue.Entry{State: keyvalue.Done, SiteID: m.Event.SiteID, SourceURI: m.Event.SourceURI})
			if err := errors.Join(err, y.queues.Delete(t.Context(), m.Ref)); err != nil {
				t.Fatal(err)
			}
			return Recovered, []audit.Kind{audit.Death, audit.Replay, audit.Recovered}
		},
		"it dies again": func(t testing.TB, y yard, m stream.Message) (Outcome, []audit.Kind) {
			y.bury(t, m, "again")
			return Gone, []audit.Kind{audit.Death, audit.Replay, audit.Death}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			y, srv := newYard(t)
			l := y.die(t, "a.pdf")
			y = interrupt(t, y, srv, "requeue", false, func(q *Queue) act { return q.Replay }, l)
			want, kinds := work(t, y, y.queued(t)[0])
			y.replay(t, l, want)
			if queued := y.queued(t); len(queued) != 0 {
				t.Errorf("queued: %+v", queued)
			}
			y.trailOf(t, l, kinds...)
		})
	}
}

// While one operator replays a letter another one acts on it.
func TestReplayOvertaken(t *testing.T) {
	t.Parallel()
	for what, other := range map[string]struct {
		act   func(*Queue) act
		kinds []audit.Kind
	}{
		"replay":  {func(q *Queue) act { return q.Replay }, []audit.Kind{audit.Death, audit.Replay}},
		"discard": {func(q *Queue) act { return q.Discard }, []audit.Kind{audit.Death, audit.Replay, audit.Discard}},
	} {
		for _, step := range []string{"burial", "audit"} {
			t.Run(what+" after "+step, func(t *testing.T) {
				t.Parallel()
				y, srv := newYard(t)
				l := y.die(t, "a.pdf")
				second := enter(t, srv)
				y.step = func(s string) {
					if s == step {
						if _, err := other.act(second.Queue)(t.Context(), l.Sequence, operator); err != nil {
							t.Error(err)
						}
					}
				}
				y.replay(t, l, Gone) // it was not this replay that queued it
				y.gone(t)
				if n := len(y.queued(t)); (n == 1) != (what == "replay") || n > 1 {
					t.Errorf("%d copies are queued", n)
				}
				var kinds []audit.Kind
				for e, err := range y.trail.Log(t.Context(), l.Site, l.Key) {
					if err != nil {
						t.Fatal(err)
					}
					kinds = append(kinds, e.Kind)
				}
				slices.Sort(kinds)
				if want := slices.Sorted(slices.Values(other.kinds)); !slices.Equal(kinds, want) {
					t.Errorf("the trail has %v, want %v", kinds, want)
				}
				if _, err := y.trail.Discarded(t.Context(), l.Site, l.Key); (err == nil) != (what == "discard") {
					t.Errorf("the trail says of a discard: %v", err)
				}
			})
		}
	}
}

func TestDiscardCutOff(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"burial", "audit"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			y, srv := newYard(t)
			l := y.put(t, letterOf(y.publish(t, "a.pdf"), "unparseable"))
			y = interrupt(t, y, srv, step, true, func(q *Queue) act { return q.Discard }, l)
			if _, err := y.At(t.Context(), l.Sequence); err != nil {
				t.Fatalf("the letter: %v", err)
			}
			if got, err := y.Discard(t.Context(), l.Sequence, operator); got != Discarded || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			y.gone(t)
			if queued := y.queued(t); len(queued) != 0 {
				t.Errorf("queued: %+v", queued)
			}
			y.trailOf(t, l, audit.Death, audit.Discard)
		})
	}
}
