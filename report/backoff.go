package report

import "time"

// Backoff says how long to wait before the next attempt.
type Backoff struct {
	Base   time.Duration // after the first attempt
	Max    time.Duration // the longest, before jitter
	Jitter time.Duration // at most so much is added at random
}

// Delay is min(Base * 2^(n-1), Max) + uniform(0, Jitter) after attempt n, which starts at 1. The random source
// yields numbers in [0, 1). A delay that the source asked for takes the place of the power of two.
func (b Backoff) Delay(n int, asked time.Duration, random func() float64) time.Duration {
	d := asked
	if d <= 0 {
		d = b.Base
		for i := 1; i < n && d < b.Max; i++ {
			d *= 2
		}
	}
	return min(d, b.Max) + time.Duration(random()*float64(b.Jitter))
}

// Longest is the longest delay that [Backoff.Delay] can return.
func (b Backoff) Longest() time.Duration { return b.Max + b.Jitter }
