package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// size is how many slots may be used now; what is claimed for that is given back.
func (s *slots) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most - s.kept - s.owed
}

func TestSlots(t *testing.T) {
	t.Parallel()
	steps := func(t *testing.T, s *slots, want int64, what string) {
		t.Helper()
		if got := s.size(); got != want {
			t.Errorf("%s: %d slots, want %d", what, got, want)
		}
	}

	t.Run("free ones", func(t *testing.T) {
		t.Parallel()
		s := newSlots(8)
		s.narrow()
		steps(t, s, 1, "after a sign of trouble")
		if got := s.claim(8); got != 1 {
			t.Errorf("%d can be claimed, want 1", got)
		}
		s.widen(1)
		steps(t, s, 2, "after a settled report")
		s.double()
		s.double()
		steps(t, s, 8, "after two seconds")
		s.double()
		s.release(1)
		if got := s.claim(9); got != 8 {
			t.Errorf("%d can be claimed in the end, want 8", got)
		}
	})

	t.Run("used ones", func(t *testing.T) {
		t.Parallel()
		s := newSlots(8)
		s.claim(8)
		s.narrow()
		s.release(6)
		if got := s.claim(8); got != 0 {
			t.Errorf("%d can be claimed beside two that are used, want none", got)
		}
		s.release(2)
		if got := s.claim(8); got != 1 {
			t.Errorf("%d can be claimed, want 1", got)
		}
		s.release(1)
		s.narrow() // another sign changes nothing
		steps(t, s, 1, "after another sign")
	})

	t.Run("one alone", func(t *testing.T) {
		t.Parallel()
		s := newSlots(8)
		s.claim(3) // the suspect has one
		type answer struct {
			leave   func()
			alone   bool
			claimed bool
		}
		claimed := make(chan answer, 1)
		go func() {
			var a answer
			a.leave, a.alone, a.claimed = s.claimAll(t.Context())
			claimed <- a
		}()
		for s.size() > 1 {
			runtime.Gosched()
		}
		if _, _, again := s.claimAll(t.Context()); again {
			t.Error("a second suspect may claim all slots")
		}
		s.widen(8)
		s.double()
		steps(t, s, 1, "while one waits to be alone")
		s.release(2)
		a := <-claimed
		if !a.alone || !a.claimed || s.claim(1) > 0 {
			t.Errorf("it is not alone: %+v", a)
		}
		a.leave()
		s.release(1)
		s.widen(8)
		steps(t, s, 8, "afterwards")
	})

	t.Run("one that is not left alone", func(t *testing.T) {
		t.Parallel()
		s := newSlots(8)
		s.claim(2)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		leave, alone, claimed := s.claimAll(ctx)
		if alone || !claimed {
			t.Errorf("alone: %t, claimed: %t", alone, claimed)
		}
		leave()
		s.release(1) // it ends, and the other does not
		s.double()
		if got := s.claim(8); got != 1 {
			t.Errorf("%d can be claimed beside the one that does not end, want 1", got)
		}
	})

	t.Run("a single one", func(t *testing.T) {
		t.Parallel()
		s := newSlots(1)
		s.claim(1)
		leave, alone, claimed := s.claimAll(t.Context())
		if !alone || !claimed {
			t.Errorf("alone: %t, claimed: %t", alone, claimed)
		}
		leave()
		s.narrow()
		s.release(1)
		if got := s.claim(1); got != 1 {
			t.Error("the slot is gone")
		}
	})
}

// Whatever happens at once, no more slots are used than there are, nobody is beside the one that is alone, and none is lost.
func TestSlotsAtOnce(t *testing.T) {
	t.Parallel()
	const most = 16
	s := newSlots(most)
	var used, alone atomic.Int64
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 2000 {
				if s.acquire(t.Context()) != nil {
					return
				}
				n := 1 + s.claim(random.Int64N(4))
				if got := used.Add(n); got > most || alone.Load() > 0 {
					t.Errorf("%d slots are used, and %d reports are alone", got, alone.Load())
				}
				switch random.IntN(10) {
				case 0:
					s.narrow()
				case 1:
					s.double()
				case 2:
					used.Add(1 - n)
					s.release(n - 1)
					n = 1
					if leave, ok, claimed := s.claimAll(t.Context()); claimed {
						alone.Add(1)
						if got := used.Load(); !ok || got != 1 {
							t.Errorf("alone: %t, beside %d", ok, got-1)
						}
						alone.Add(-1)
						leave()
					}
				default:
					s.widen(1)
				}
				used.Add(-n)
				s.release(n)
			}
		})
	}
	work.Wait()
	s.widen(most)
	if got := s.claim(most + 1); got != most {
		t.Errorf("%d slots are left, want %d", got, most)
	}
}

// When an outage ends a worker begins with few slots.
func TestSlotsAfterAnOutage(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1024 // it takes ten seconds until all may be used again
	w := newWorld(t, cfg, script{})
	k := w.open()
	k.stopping = t.Context()
	tries := 0
	err := k.repeat(&delivery{logger: k.log}, "test", func() error {
		if tries++; tries == 1 {
			return nats.ErrTimeout
		}
		return nil
	})
	if err != nil || k.slots.size() == k.slots.most {
		t.Errorf("after the outage there are %d slots, %v", k.slots.size(), err)
	}
}

// A heartbeat that the server does not take is a sign of trouble, also while all slots are in use and no pull can fail.
func TestSlotsAfterALostHeartbeat(t *testing.T) {
	t.Parallel()
	deaf := &natstest.Deaf{}
	for name, tt := range map[string]struct {
		way       nats.Option
		lose, end func(*world, *worker)
	}{
		"no answer": {
			nats.SetCustomDialer(deaf),
			func(*world, *worker) { deaf.Lose.Store(true) },
			func(w *world, k *worker) {
				deaf.Lose.Store(false)
				if err := k.nc.ForceReconnect(); err != nil { // it may have lost half a message
					w.Error(err)
				}
			},
		},
		"no connection": {
			nats.ReconnectBufSize(8 << 20), // heartbeats are kept for the next one
			func(w *world, _ *worker) { w.srv.Stop(w) },
			func(w *world, _ *worker) { w.srv.Restart(w) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Workers = 8
			release := make(chan struct{})
			w := newWorld(t, cfg, script{})
			for i := range cfg.Workers {
				site := fmt.Sprint("R", i)
				w.script[site] = times(10, func(ctx context.Context) (report.Result, error) {
					<-release
					return succeed(ctx)
				})
				w.publish(site)
			}
			k := w.open(tt.way)
			w.run(k)
			natstest.Eventually(t, "all slots to be in use", func() bool {
				return len(k.hand.all()) == cfg.Workers && k.slots.size() == int64(cfg.Workers)
			})
			tt.lose(w, k)
			natstest.Eventually(t, "all slots but one to be kept", func() bool { return k.slots.size() == 1 })
			tt.end(w, k)
			close(release)
			w.check(invariant.Tally{Done: cfg.Workers})
		})
	}
}
