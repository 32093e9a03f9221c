package dlq

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// A canary of letters whose reports have landed all would tell nothing: they are closed without one.
func TestCanaryOfLandedLetters(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	y.dieMany(t, 5)
	send := y.plan(t, PlanOptions{}).Send
	for i := range send {
		send[i].Landed = true
	}
	tally, err := y.ReplayAll(t.Context(), send, Bulk{By: operator, Canary: 2})
	if err != nil || tally.Stopped != "" || tally.CanaryLanded+tally.CanaryDied != 0 || tally.ByOutcome[Replayed] != 5 {
		t.Errorf("%+v, %v", tally, err)
	}
}

// Runs that share a pace keep it together, and each says what became of its letters.
func TestSharedPace(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	const n = 10
	y.dieMany(t, n)
	send := y.plan(t, PlanOptions{}).Send
	pace := rate.NewLimiter(20, 1)
	began := time.Now()
	var both sync.WaitGroup
	for _, part := range [][]Candidate{send[:n/2], send[n/2:]} {
		both.Go(func() {
			told := map[uint64]Outcome{}
			_, err := y.ReplayAll(t.Context(), part, Bulk{
				By: operator, Rate: 1e6, Pace: pace, Each: func(c Candidate, o Outcome) { told[c.Sequence] = o },
			})
			if err != nil {
				t.Error(err)
			}
			for _, c := range part {
				if told[c.Sequence] != Replayed {
					t.Errorf("letter %d: told %q", c.Sequence, told[c.Sequence])
				}
			}
		})
	}
	both.Wait()
	if took := time.Since(began); took < (n-1)*50*time.Millisecond {
		t.Errorf("%d letters took %v, want half a second or nearly", n, took)
	}
}
