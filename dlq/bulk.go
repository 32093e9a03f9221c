package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
)

// Bulk says how many letters are replayed.
type Bulk struct {
	By       By
	Rate     float64                  // letters per second; 0 = as fast as the server takes them
	Pace     *rate.Limiter            // in place of Rate, if several share one; may be nil
	Canary   int                      // send so many first and go on only if most of them land; 0 = none
	Patience time.Duration            // how long the canary is waited for once it is sent; 0 = as long as it takes
	Progress func(done, total int)    // called after each letter, one call at a time; may be nil
	Each     func(Candidate, Outcome) // likewise
}

// Tally is what became of the letters of a bulk replay.
type Tally struct {
	ByOutcome map[Outcome]int
	Sent      int // reports that are in the queue again
	// Of the canary: how many landed, and how many did not.
	CanaryLanded, CanaryDied int
	// Stopped says why it ended early, or that most of the canary did not land; empty if neither.
	Stopped string
}

// ErrSlow says that it took too long to learn how the canary fares: its reports wait behind others, or are parked.
var ErrSlow = errors.New("reports have neither landed nor died in time")

// inHand bounds the letters that are acted on at once. A replay is about six requests, three of which are synced to disk.
const inHand = 32

// ReplayAll replays letters in about the given order, by [Queue.Replay]: letters that have left or were replaced since the plan are
// left alone, and so is every newer one.
//
// When ctx ends, no further letter is begun, the letters in hand are finished, and the error is that of ctx. After
// an error, too, the tally says how far it came. A new [Queue.Plan] and ReplayAll go on from there, and send nothing twice.
//
// A canary is spread over causes and upstreams. It waits until each report of it has landed or died again; if that takes longer than
// the Patience, the error is [ErrSlow]. How long the letters wait for the pace does not count.
func (q *Queue) ReplayAll(ctx context.Context, send []Candidate, b Bulk) (Tally, error) {
	r := &bulkRun{q: q, b: b, pace: cmp.Or(b.Pace, pace(b.Rate)), total: len(send), tally: Tally{ByOutcome: map[Outcome]int{}}}
	var canary []Candidate
	for len(canary) < b.Canary && len(send) > 0 { // more than once if some were not sent
		first, rest := spread(send, b.Canary-len(canary))
		if len(first) == 0 { // only landed ones are left
			break
		}
		sent, err := r.replay(ctx, first)
		canary, send = append(canary, sent...), rest
		if err != nil {
			return r.tally, err
		}
	}
	if len(canary) > 0 {
		if err := r.await(ctx, canary); err != nil || r.tally.Stopped != "" {
			return r.tally, err
		}
	}
	_, err := r.replay(ctx, send)
	return r.tally, err
}

// pace is the limiter of a rate. Lateness is made up for, but by no more than a twentieth of a second's letters.
func pace(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	burst := max(1, int(perSecond/20))
	l := rate.NewLimiter(rate.Limit(perSecond), burst)
	l.AllowN(time.Now(), burst-1) // nothing to make up for yet
	return l
}

type bulkRun struct {
	q     *Queue
	b     Bulk
	pace  *rate.Limiter
	total int

	mu    sync.Mutex
	done  int
	tally Tally
}

// replay replays letters and returns those that are in the queue again.
func (r *bulkRun) replay(ctx context.Context, letters []Candidate) (sent []Candidate, err error) {
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(inHand)
	for _, c := range letters {
		if err = r.wait(running); err != nil {
			break
		}
		g.Go(func() error {
			if running.Err() != nil { // since it was its turn
				return running.Err()
			}
			outcome, err := r.q.Replay(context.WithoutCancel(ctx), c.Sequence, r.b.By)
			switch {
			case errors.Is(err, keyvalue.ErrUnreadable), errors.Is(err, audit.ErrUnreadable), errors.Is(err, ErrForged):
				outcome = Unreadable
			case err != nil:
				return fmt.Errorf("replay %s, letter %d: %w", c.Key.Short(), c.Sequence, err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if outcome == Replayed {
				sent = append(sent, c)
			}
			r.note(c, outcome)
			return nil
		})
	}
	if failed := g.Wait(); failed != nil {
		err = failed
	}
	return sent, err
}

// wait waits until it is a letter's turn.
func (r *bulkRun) wait(ctx context.Context) error {
	err := r.pace.Wait(ctx)
	if err != nil && ctx.Err() == nil { // the limiter does not wait for a turn that comes after ctx's deadline
		return context.DeadlineExceeded
	}
	return err
}

// note counts an outcome. r.mu is held.
func (r *bulkRun) note(c Candidate, o Outcome) {
	r.tally.ByOutcome[o]++
	if o == Replayed {
		r.tally.Sent++
	}
	r.done++
	if r.b.Each != nil {
		r.b.Each(c, o)
	}
	if r.b.Progress != nil {
		r.b.Progress(r.done, r.total)
	}
}
