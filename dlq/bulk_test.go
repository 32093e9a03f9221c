package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// dieMany lets n reports die.
func (y yard) dieMany(t testing.TB, n int) (letters []Letter) {
	t.Helper()
	letters = make([]Letter, n)
	var all sync.WaitGroup
	few := make(chan struct{}, 16)
	for i := range n {
		few <- struct{}{}
		all.Go(func() {
			defer func() { <-few }()
			uri := fmt.Sprint(i, ".pdf")
			e := report.Event{SiteID: "TWR 1", SourceURI: uri}
			m := stream.Read(stream.Ref{Stream: stream.Reports, Sequence: 1 << 40}, "reports.submitted.TWR=201", nil,
				fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, uri), time.Now())
			l := letterOf(m, "unparseable structure in "+uri)
			var err error
			if l.Sequence, err = y.Put(context.Background(), l, 0); err == nil {
				err = y.RecordDeath(context.Background(), l)
			}
			if err != nil {
				t.Error(err)
			}
			letters[i] = l
		})
	}
	all.Wait()
	return letters
}

// copies expects that each letter's report is queued once, and nothing else is.
func (y yard) copies(t testing.TB, letters []Letter) {
	t.Helper()
	queued := map[report.Key]int{}
	for _, m := range y.queued(t) {
		queued[m.Key]++
	}
	for _, l := range letters {
		if queued[l.Key] != 1 {
			t.Errorf("letter %d is queued %d times", l.Sequence, queued[l.Key])
		}
		delete(queued, l.Key)
	}
	if len(queued) > 0 {
		t.Errorf("%d other reports are queued", len(queued))
	}
}

// Complaint 20: a bulk act is not limited to a page, says how far it is, and can be repeated.
func TestReplayAllHasNoPages(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	const n = 1100 // more than one look at the letters finds
	letters := y.dieMany(t, n)
	p := y.plan(t, PlanOptions{})
	last := 0
	tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator, Progress: func(done, total int) {
		if done != last+1 || total != n {
			t.Errorf("progress: %d of %d after %d", done, total, last)
		}
		last = done
	}})
	want := Tally{ByOutcome: map[Outcome]int{Replayed: n}, Sent: n}
	if err != nil || !cmp.Equal(tally, want) || last != n {
		t.Errorf("%v, progress to %d, %s", err, last, cmp.Diff(want, tally))
	}
	y.gone(t)
	y.copies(t, letters)

	tally, err = y.ReplayAll(t.Context(), p.Send, Bulk{By: operator})
	if want = (Tally{ByOutcome: map[Outcome]int{Gone: n}}); err != nil || !cmp.Equal(tally, want) {
		t.Errorf("again: %v %s", err, cmp.Diff(want, tally))
	}
	y.copies(t, letters)
}

// Letters that change between plan and run are left alone, and newer ones are not looked at.
func TestReplayAllOfWhatHasChanged(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	var letters []Letter
	for _, uri := range []string{"same", "replaced", "discarded", "landed", "queued again", "too often"} {
		letters = append(letters, y.dieAs(t, uri, func(l *Letter) {
			if uri == "too often" {
				l.Replays = DefaultReplayMax
			}
		}))
	}
	p := y.plan(t, PlanOptions{})
	for _, l := range letters[5:] { // as if the plan of one with a larger cap were run by one with a smaller
		p.Send = append(p.Send, Candidate{Sequence: l.Sequence, Key: l.Key, Site: l.Site})
	}
	newer := y.put(t, letterOf(stream.Read(letters[1].Source, letters[1].Subject, nil, letters[1].Body, letters[1].PublishedAt), "again"))
	if o, err := y.Discard(t.Context(), letters[2].Sequence, operator); o != Discarded || err != nil {
		t.Fatal(o, err)
	}
	y.land(t, "landed")
	if err := y.queues.Requeue(t.Context(), letters[4].Site, letters[4].Key, nil, letters[4].Body, stream.Carried{}, 0); err != nil {
		t.Fatal(err)
	}
	late := y.die(t, "late")
	tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator})
	want := Tally{ByOutcome: map[Outcome]int{Replayed: 1, Gone: 2, Recovered: 1, Busy: 1, Quarantined: 1}, Sent: 1}
	if err != nil || !cmp.Equal(tally, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, tally))
	}
	var left []uint64
	for _, l := range collect(t, y.List(t.Context(), Filter{})) {
		left = append(left, l.Sequence)
	}
	slices.Sort(left)
	if want := []uint64{letters[4].Sequence, letters[5].Sequence, newer.Sequence, late.Sequence}; !slices.Equal(left, want) {
		t.Errorf("letters %v are left, want %v", left, want)
	}
	y.copies(t, []Letter{letters[0], letters[4]})
}

// Two operators replay the same filter at once.
func TestReplayAllByTwo(t *testing.T) {
	t.Parallel()
	a, srv := newYard(t)
	const n = 300
	letters := a.dieMany(t, n)
	var both sync.WaitGroup
	tallies := make([]Tally, 2)
	for i, y := range []yard{a, enter(t, srv)} {
		both.Go(func() {
			p, err := y.Plan(t.Context(), PlanOptions{Filter: Filter{Code: report.CodeMalformedPDF}})
			if err == nil {
				tallies[i], err = y.ReplayAll(t.Context(), p.Send, Bulk{By: operator})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	a.gone(t)
	a.copies(t, letters)
	for _, tally := range tallies {
		if tally.Sent > n || tally.ByOutcome[Replayed]+tally.ByOutcome[Gone] > n || len(tally.ByOutcome) > 2 {
			t.Errorf("an operator was told %+v", tally)
		}
	}
	if tallies[0].Sent+tallies[1].Sent < n {
		t.Errorf("the operators were told %+v", tallies)
	}
}

// A run that is interrupted finishes the letters that it has in hand, and can be repeated.
func TestReplayAllInterrupted(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	const n = 200
	letters := y.dieMany(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tally, err := y.ReplayAll(ctx, y.plan(t, PlanOptions{}).Send, Bulk{By: operator, Progress: func(done, _ int) {
		if done == 50 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || tally.Sent < 50 || tally.Sent > 50+inHand || tally.ByOutcome[Replayed] != tally.Sent {
		t.Fatalf("interrupted: %v, %+v", err, tally)
	}
	left := y.plan(t, PlanOptions{})
	if queued := len(y.queued(t)); queued != tally.Sent || len(left.Send) != n-tally.Sent {
		t.Fatalf("%d sent, %d queued, %d letters left of %d", tally.Sent, queued, len(left.Send), n)
	}
	again, err := y.ReplayAll(t.Context(), left.Send, Bulk{By: operator})
	if want := (Tally{ByOutcome: map[Outcome]int{Replayed: n - tally.Sent}, Sent: n - tally.Sent}); err != nil || !cmp.Equal(again, want) {
		t.Errorf("again: %v %s", err, cmp.Diff(want, again))
	}
	y.gone(t)
	y.copies(t, letters)
	y.trailOf(t, letters[0], audit.Death, audit.Replay)
}

// A deadline that comes before the next letter's turn interrupts, too.
func TestReplayAllDeadline(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	y.dieMany(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tally, err := y.ReplayAll(ctx, y.plan(t, PlanOptions{}).Send, Bulk{By: operator, Rate: 0.001})
	if !errors.Is(err, context.DeadlineExceeded) || tally.Sent != 1 {
		t.Errorf("%v, %+v", err, tally)
	}
}

// The connection breaks in the middle of several letters: the error comes with the tally, and a new run goes on.
func TestReplayAllCutOff(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"burial", "audit", "requeue"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			y, srv := newYard(t)
			const n = 100
			letters := y.dieMany(t, n)
			p := y.plan(t, PlanOptions{})
			var mu sync.Mutex
			met := 0
			y.step = func(s string) {
				mu.Lock()
				defer mu.Unlock()
				if s == step {
					if met++; met == 40 {
						y.js.Conn().Close()
					}
				}
			}
			tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator})
			if !errors.Is(err, nats.ErrConnectionClosed) || tally.Sent >= n {
				t.Fatalf("cut off: %v, %+v", err, tally)
			}
			y = enter(t, srv)
			queued := map[report.Key]int{}
			for _, m := range y.queued(t) {
				queued[m.Key]++
			}
			dead := map[report.Key]int{}
			for _, l := range collect(t, y.List(t.Context(), Filter{})) {
				dead[l.Key]++
			}
			for _, l := range letters {
				if queued[l.Key]+dead[l.Key] == 0 || queued[l.Key] > 1 {
					t.Errorf("letter %d: %d copies, %d letters", l.Sequence, queued[l.Key], dead[l.Key])
				}
			}
			if _, err := y.ReplayAll(t.Context(), y.plan(t, PlanOptions{}).Send, Bulk{By: operator}); err != nil {
				t.Error(err)
			}
			y.gone(t)
			y.copies(t, letters)
		})
	}
}

// A full trail stops a bulk replay before its first letter: all stay, and nothing is queued.
func TestReplayAllWithoutTrail(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	letters := []Letter{y.die(t, "a.pdf"), y.die(t, "b.pdf"), y.die(t, "c.pdf"), y.die(t, "d.pdf")}
	y.land(t, "d.pdf")
	s, err := y.js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	full := s.CachedInfo().Config
	full.MaxBytes = int64(s.CachedInfo().State.Bytes) // it refuses what comes
	if _, err := y.js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	p := y.plan(t, PlanOptions{})
	if tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator}); err == nil || tally.Sent != 0 || len(tally.ByOutcome) != 0 {
		t.Errorf("all: %+v, %v", tally, err)
	}
	if got := collect(t, y.Export(t.Context(), Filter{})); !cmp.Equal(got, letters) {
		t.Error(cmp.Diff(letters, got))
	}
	if n := len(y.queued(t)); n != 0 {
		t.Errorf("%d copies are queued", n)
	}
	full.MaxBytes = -1
	if _, err := y.js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator})
	if want := (Tally{ByOutcome: map[Outcome]int{Replayed: 3, Recovered: 1}, Sent: 3}); err != nil || !cmp.Equal(tally, want) {
		t.Errorf("afterwards: %v %s", err, cmp.Diff(want, tally))
	}
}
