package consumer

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// widenAfter is how long after a sign of trouble, and after the last time, the slots are doubled.
const widenAfter = time.Second

// slots bounds what is in hand: each report has one, and so has each that an open pull may bring. There are Config.Workers of them in good
// times. After a sign that deliveries are being lost there is one, and then more again, one more for each report that is settled and
// twice as many each second, until the next sign.
//
// For what is in hand when a worker dies, or its connection, is charged an attempt, and what was charged is delivered again first, AckWait
// later. With all slots in use, a second fault would find the same reports in hand, and the fourth would bury them.
type slots struct {
	most int64
	free *semaphore.Weighted

	mu     sync.Mutex
	kept   int64 // that nobody may use for now
	owed   int64 // in use, but kept when given back
	alone  bool  // a suspect is tried alone, or waits for that: there are no more than one
	repaid chan struct{}
	clock  *time.Timer // nil while all slots may be used
}

func newSlots(most int) *slots {
	return &slots{most: int64(most), free: semaphore.NewWeighted(int64(most))}
}

// acquire waits for a slot, or until ctx ends.
func (s *slots) acquire(ctx context.Context) error { return s.free.Acquire(ctx, 1) }

// claim acquires up to most of the slots that are free now.
func (s *slots) claim(most int64) (got int64) {
	for n := most; n > 0; {
		if n = min(n, most-got); n > 0 && s.free.TryAcquire(n) {
			got += n
		} else {
			n /= 2
		}
	}
	return got
}

// release gives slots back.
func (s *slots) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free.Release(n - s.repay(min(n, s.owed)))
}

// repay keeps slots that were owed. The caller has the lock.
func (s *slots) repay(n int64) int64 {
	s.kept += n
	if s.owed -= n; s.owed == 0 && s.repaid != nil {
		close(s.repaid)
		s.repaid = nil
	}
	return n
}

// narrow leaves one slot, after a sign that deliveries are being lost. Those in use are kept when they are given back.
func (s *slots) narrow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shrink()
}

func (s *slots) shrink() {
	s.owed = s.most - 1 - s.kept
	s.repay(s.claim(s.owed))
	switch {
	case s.most == 1:
	case s.clock == nil:
		s.clock = time.AfterFunc(widenAfter, s.double)
	default:
		s.clock.Reset(widenAfter)
	}
}

// widen gives up to n slots more, if any are kept.
func (s *slots) widen(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow(n)
}

func (s *slots) grow(n int64) {
	if s.alone || s.clock == nil {
		return
	}
	inUse := min(n, s.owed)
	s.owed -= inUse
	back := min(n-inUse, s.kept)
	s.kept -= back
	s.free.Release(back)
	if s.owed+s.kept == 0 {
		s.clock.Stop()
		s.clock = nil
	}
}

func (s *slots) double() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grow(s.most - s.owed - s.kept); s.clock != nil {
		s.clock.Reset(widenAfter)
	}
}

// claimAll keeps every slot but the caller's own, and waits until nobody uses them any more, or until ctx ends. It reports whether that is
// so; claimed is false if another has claimed all. Whoever has must call leave.
func (s *slots) claimAll(ctx context.Context) (leave func(), alone, claimed bool) {
	s.mu.Lock()
	if s.alone {
		s.mu.Unlock()
		return nil, false, false
	}
	s.alone = true
	s.shrink()
	var repaid chan struct{}
	if s.owed > 0 {
		repaid = make(chan struct{})
		s.repaid = repaid
	}
	s.mu.Unlock()
	leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alone, s.repaid = false, nil
	}
	if repaid == nil {
		return leave, true, true
	}
	select {
	case <-repaid:
		return leave, true, true
	case <-ctx.Done():
		return leave, false, true
	}
}
