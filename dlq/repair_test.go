package dlq

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// repairTo is a repair to one URI, as an act.
func repairTo(uri string) func(*Queue) act {
	return func(q *Queue) act {
		return func(ctx context.Context, seq uint64, by By) (Outcome, error) {
			o, _, err := q.Repair(ctx, seq, uri, by)
			return o, err
		}
	}
}

func (y yard) repair(t testing.TB, l Letter, uri string, want Outcome) {
	t.Helper()
	if got, err := repairTo(uri)(y.Queue)(context.Background(), l.Sequence, operator); got != want || err != nil {
		t.Errorf("repair: got %q, %v; want %q", got, err, want)
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.dieAs(t, "a.pdf", func(l *Letter) { l.Replays, l.Reopened = DefaultReplayMax, 0 }) // quarantine does not matter
	by := By{Actor: "ada\n@office", Reason: "moved to https://ada:secret@host/b?token=1"}
	outcome, key, err := y.Repair(t.Context(), l.Sequence, "moved/a.pdf", by)
	want := report.NewKey("TWR 1", "moved/a.pdf")
	if outcome != Repaired || key != want || err != nil {
		t.Fatalf("got %q, %s, %v", outcome, key, err)
	}
	y.gone(t)
	queued := y.queued(t)
	if len(queued) != 1 {
		t.Fatalf("%d messages are queued", len(queued))
	}
	m := queued[0]
	if wantBody := bytes.Replace(l.Body, []byte("a.pdf"), []byte("moved/a.pdf"), 1); !bytes.Equal(m.Body, wantBody) {
		t.Errorf("queued %s, want %s", m.Body, wantBody)
	}
	if m.Key != want || m.Subject != "reports.requeued.TWR=201."+string(want) || m.Header.Get("X-Firm") != "Åcme" {
		t.Errorf("queued %+v", m)
	}
	e := y.trailOf(t, l, audit.Death, audit.Quarantine, audit.Repair)[2]
	if !m.PublishedAt.Equal(e.Time) {
		t.Errorf("published at %v, recorded at %v", m.PublishedAt, e.Time)
	}
	e.Time = time.Time{}
	if want := (audit.Event{
		Kind: audit.Repair, Key: l.Key, SiteID: "TWR 1", Actor: "ada @office", Reason: "repaired as " + string(want) + ": moved to https://host/b",
		Hash: l.Hash, Letter: l.Sequence, Payload: report.PayloadHash(l.Body), NewKey: want, NewPayload: report.PayloadHash(m.Body),
	}); !cmp.Equal(e, want) {
		t.Error(cmp.Diff(want, e))
	}
	if e, err := y.trail.Discarded(t.Context(), l.Site, l.Key); err != nil || e.Kind != audit.Repair {
		t.Errorf("given up: %+v, %v", e, err)
	}
	y.repair(t, l, "moved/a.pdf", Gone)
	// What the new report carries is a new report's: no past, and attempts of its own.
	m.Carried.PublishedAt = time.Time{}
	if !cmp.Equal(m.Carried, stream.Carried{}) {
		t.Errorf("it carries %+v", m.Carried)
	}
}

func TestRepairRefused(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.die(t, "a.pdf")
	garbled := letterOf(stream.Read(l.Source, l.Subject, nil, []byte("{"), time.Now()), "undecodable")
	garbled = y.put(t, garbled)
	for what, tt := range map[string]struct {
		l   Letter
		uri string
		by  By
	}{
		"no reason":      {l, "b.pdf", By{Actor: "ada", Reason: " "}},
		"the same URI":   {l, "a.pdf", operator},
		"no URI":         {l, "", operator},
		"not UTF-8":      {l, "\xff", operator},
		"not an event":   {garbled, "b.pdf", operator},
		"a URI too long": {l, string(bytes.Repeat([]byte("x"), 3000)), operator},
	} {
		outcome, key, err := y.Repair(t.Context(), tt.l.Sequence, tt.uri, tt.by)
		if err == nil || outcome != "" || key != "" || (what != "no reason") != errors.Is(err, ErrBeyondRepair) {
			t.Errorf("%s: got %q, %q, %v", what, outcome, key, err)
		}
	}
	y.trailOf(t, l, audit.Death)
	if n := len(y.queued(t)); n != 0 {
		t.Errorf("%d copies are queued", n)
	}
	if n := len(collect(t, y.List(t.Context(), Filter{}))); n != 2 {
		t.Errorf("%d letters are left, want 2", n)
	}
}

// The dead report is in the queue again or has landed: it is not repaired.
func TestRepairOfWhatIsNotDead(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	busy, landed := y.die(t, "busy.pdf"), y.die(t, "landed.pdf")
	if err := y.queues.Requeue(t.Context(), busy.Site, busy.Key, nil, busy.Body, stream.Carried{}, 0); err != nil {
		t.Fatal(err)
	}
	y.land(t, "landed.pdf")
	y.repair(t, busy, "b.pdf", Busy)
	y.repair(t, landed, "b.pdf", Recovered)
	y.trailOf(t, busy, audit.Death)
	y.trailOf(t, landed, audit.Death, audit.Recovered)
	y.copies(t, []Letter{busy})
}

// Where the corrected report is already decides whether it is put.
func TestRepairToWhatExists(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		prepare func(testing.TB, yard)
		queued  int
	}{
		"settled":                    {func(t testing.TB, y yard) { y.land(t, "b.pdf") }, 0},
		"queued again":               {func(t testing.TB, y yard) { y.replay(t, y.die(t, "b.pdf"), Replayed) }, 1},
		"dead of something else":     {func(t testing.TB, y yard) { y.die(t, "b.pdf") }, 1},
		"handed over by a publisher": {func(t testing.TB, y yard) { y.publish(t, "b.pdf") }, 2}, // the ledger lets one of them land
		"reopened, and not yet queued": {func(t testing.TB, y yard) {
			y.land(t, "b.pdf")
			e, err := y.ledger.LookupLeader(t.Context(), report.NewToken("TWR 1"), report.NewKey("TWR 1", "b.pdf"))
			if err == nil {
				_, err = y.ledger.Reopen(t.Context(), e, "ada", "new file")
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			y, _ := newYard(t)
			l := y.die(t, "a.pdf")
			tt.prepare(t, y)
			y.repair(t, l, "b.pdf", Repaired)
			if n := len(y.queued(t)); n != tt.queued {
				t.Errorf("%d are queued, want %d", n, tt.queued)
			}
			if _, err := y.Current(t.Context(), l.Site, l.Key); !errors.Is(err, ErrNotFound) {
				t.Errorf("the letter: %v", err)
			}
			y.trailOf(t, l, audit.Death, audit.Repair)
		})
	}
}

// A repair that is cut off after any of its steps is repeated, before or after a restart of the server.
func TestRepairCutOff(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"burial", "audit", "requeue"} {
		for _, restart := range []bool{false, true} {
			t.Run(step+map[bool]string{true: ", restart"}[restart], func(t *testing.T) {
				t.Parallel()
				y, srv := newYard(t)
				shortWindow(t, y)
				l := y.put(t, letterOf(y.publish(t, "a.pdf"), "unparseable")) // its burial was cut short, too
				y = interrupt(t, y, srv, step, restart, repairTo("b.pdf"), l)
				if got, err := y.At(t.Context(), l.Sequence); err != nil || !cmp.Equal(got, l) {
					t.Fatalf("the letter: %v %s", err, cmp.Diff(l, got))
				}
				shortWindow(t, y)() // so that what is recorded again is stored again
				y.repair(t, l, "b.pdf", Repaired)
				y.repair(t, l, "b.pdf", Gone)
				y.gone(t)
				if queued := y.queued(t); len(queued) != 1 || queued[0].Key != report.NewKey("TWR 1", "b.pdf") {
					t.Errorf("queued: %+v", queued)
				}
				y.trailOf(t, l, audit.Death, audit.Repair)
			})
		}
	}
}

// The corrected report is worked before the repair that was cut off is repeated: it is not worked again.
func TestRepairCutOffThenWorked(t *testing.T) {
	t.Parallel()
	for what, work := range map[string]func(testing.TB, yard, stream.Message){
		"it lands": func(t testing.TB, y yard, m stream.Message) { y.lands(t, m) },
		"it dies":  func(t testing.TB, y yard, m stream.Message) { y.bury(t, m, "again") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			y, srv := newYard(t)
			l := y.die(t, "a.pdf")
			y = interrupt(t, y, srv, "requeue", false, repairTo("b.pdf"), l)
			work(t, y, y.queued(t)[0])
			y.repair(t, l, "b.pdf", Repaired)
			if queued := y.queued(t); len(queued) != 0 {
				t.Errorf("queued: %+v", queued)
			}
			if _, err := y.At(t.Context(), l.Sequence); !errors.Is(err, ErrNotFound) {
				t.Errorf("the letter: %v", err)
			}
			y.trailOf(t, l, audit.Death, audit.Repair)
		})
	}
}

// A repair that was cut off is given another URI: both are on record, inside the duplicate window too.
func TestRepairCutOffThenElsewhere(t *testing.T) {
	t.Parallel()
	y, srv := newYard(t)
	l := y.die(t, "a.pdf")
	y = interrupt(t, y, srv, "audit", false, repairTo("b.pdf"), l)
	y.repair(t, l, "c.pdf", Repaired)
	events := y.trailOf(t, l, audit.Death, audit.Repair, audit.Repair)
	got := []report.Key{events[1].NewKey, events[2].NewKey}
	if want := []report.Key{report.NewKey("TWR 1", "b.pdf"), report.NewKey("TWR 1", "c.pdf")}; !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	if queued := y.queued(t); len(queued) != 1 || queued[0].Key != got[1] {
		t.Errorf("queued: %+v", queued)
	}
}
