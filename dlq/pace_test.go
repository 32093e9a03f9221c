package dlq

import (
	"testing"
	"time"
)

// 1,000 letters at 200 a second: the rate is held. How much slower a busy machine makes it is told, not judged.
func TestReplayAllHoldsTheRate(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	const n, perSecond = 1000, 200.0
	y.dieMany(t, n)
	p := y.plan(t, PlanOptions{})
	begin := time.Now()
	tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator, Rate: perSecond})
	took := time.Since(begin)
	if err != nil || tally.Sent != n {
		t.Fatalf("%v, %+v", err, tally)
	}
	ratio := (n - 1) / took.Seconds() / perSecond // the first is sent at once
	t.Logf("%d letters in %v: %.3f of the rate asked for", n, took, ratio)
	if ratio > 1.05 {
		t.Errorf("%.3f times the rate asked for", ratio)
	}
}

// Lateness is made up for, by little; and the beginning is no burst.
func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, perSecond := range []float64{0.5, 1, 19, 20, 200, 5000} {
		l := pace(perSecond)
		n := 0
		for l.AllowN(now.Add(time.Millisecond/10), 1) && n < 10_000 {
			n++
		}
		if n != 1 {
			t.Errorf("%v/s begins with %d letters at once", perSecond, n)
		}
		n = 0
		for l.AllowN(now.Add(time.Hour), 1) && n < 10_000 {
			n++
		}
		if want := max(1, int(perSecond/20)); n != want {
			t.Errorf("%v/s: %d letters at once after a pause, want %d", perSecond, n, want)
		}
	}
	l := pace(0)
	for range 10_000 {
		if !l.AllowN(now, 1) {
			t.Fatal("no rate is a limit")
		}
	}
}
