package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

const (
	// longestPause is the longest time between two replays of an upstream's letters because it answers again, after canaries that have died.
	longestPause = time.Hour
	// largestWave is the most letters that are out before it is known how they fare.
	largestWave = 100
)

// takeUpstream takes the turn of an upstream unless somebody is replaying its letters or, if the pause after the last time is to
// be heeded, that is not over. If it is not won, left is how long to wait before the next try.
func (c *Consumer) takeUpstream(ctx context.Context, name string, heed bool) (turn keyvalue.Turn, left time.Duration, won bool, err error) {
	last, err := c.turns.Last(ctx, "upstream."+string(report.NewToken(name)))
	if err != nil {
		return last, 0, false, err
	}
	switch {
	case !last.Over:
		left = last.Left(c.holding())
	case heed:
		left = last.Left(last.Pause)
	}
	if left > 0 {
		return last, left, false, nil
	}
	turn = last
	turn.Holder, turn.Over = c.cfg.Worker, false
	switch turn, err = c.turns.Renew(ctx, turn); {
	case errors.Is(err, keyvalue.ErrTaken): // somebody was faster
		return last, c.holding(), false, nil
	case err != nil:
		return last, 0, false, err
	}
	return turn, 0, true, nil
}

// replayUpstream replays letters of one upstream, whose turn this worker has taken, and gives the turn back. After letters that died
// the next turn because of a recovery comes later and later.
func (c *Consumer) replayUpstream(ctx context.Context, turn keyvalue.Turn, name string, letters []dlq.Candidate, why string) error {
	held, letGo := context.WithCancel(ctx)
	defer letGo()
	now := turn.Now // of the turn as it is now
	var keeping sync.WaitGroup
	keeping.Go(func() { c.keepTurn(held, &turn, letGo) })
	tally, err := c.replayInWaves(held, letters, now, why)
	lost := held.Err() != nil && ctx.Err() == nil
	letGo()
	keeping.Wait()
	if len(tally.ByOutcome) > 0 {
		stopped := tally.Stopped
		if err != nil {
			stopped = err.Error()
		}
		c.log.Info("automatic replay", "upstream", name, "why", why, "replayed", tally.Sent, "landed", tally.CanaryLanded, "died", tally.CanaryDied,
			"closed", tally.ByOutcome[dlq.Recovered], "letters", len(letters), "stopped", stopped)
	}
	slow := errors.Is(err, dlq.ErrSlow)
	switch {
	case lost:
		return keyvalue.ErrTaken
	case err != nil && !slow:
		return err
	case slow, tally.Stopped != "":
		turn.Pause = min(max(2*turn.Pause, 2*c.holding()), longestPause, c.cfg.ReplayEvery)
	default:
		turn.Pause = c.holding()
	}
	if tally.Stopped != "" {
		c.upstreams.failed(name)
	}
	turn.Over = true
	if _, failed := c.turns.Renew(ctx, turn); failed != nil {
		return failed
	}
	return err
}

// keepTurn renews a turn until ctx ends, or until it is lost: then nothing more is to be replayed.
func (c *Consumer) keepTurn(ctx context.Context, turn *keyvalue.Turn, lost func()) {
	tick := time.NewTicker(c.holding() / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout) // or one would not know whether it is written
		renewed, err := c.turns.Renew(ask, *turn)
		cancel()
		switch {
		case err == nil:
			*turn = renewed
		case errors.Is(err, keyvalue.ErrTaken):
			lost()
			return
		}
	}
}

// replayInWaves replays one letter, and when its report has landed two, and so on: at any time no more are out than have landed
// before, and one. When most of a wave has died it stops, so an upstream that goes away meanwhile, or was never well, charges few
// reports a replay.
func (c *Consumer) replayInWaves(ctx context.Context, letters []dlq.Candidate, now func() time.Time, why string) (dlq.Tally, error) {
	total := dlq.Tally{ByOutcome: map[dlq.Outcome]int{}}
	run := func(wave []dlq.Candidate) error {
		tally, err := c.letters.ReplayAll(ctx, wave, dlq.Bulk{
			By:       dlq.By{Actor: c.cfg.Worker, Reason: why},
			Pace:     c.pace,
			Canary:   len(wave),
			Patience: c.patience(),
			Each:     func(l dlq.Candidate, o dlq.Outcome) { c.logReplay(l, o, why) },
		})
		for outcome, n := range tally.ByOutcome {
			total.ByOutcome[outcome] += n
		}
		total.Sent += tally.Sent
		total.CanaryLanded += tally.CanaryLanded
		total.CanaryDied += tally.CanaryDied
		total.Stopped = tally.Stopped
		return err
	}
	left := canaryFirst(letters)
	for size := 1; len(left) > 0 && total.Stopped == ""; {
		var wave []dlq.Candidate
		before := total.CanaryLanded
		for len(wave) < size && len(left) > 0 {
			ok, err := c.rested(ctx, left[0], now())
			if err != nil {
				return total, err
			}
			if ok {
				wave = append(wave, left[0])
			}
			left = left[1:]
		}
		if err := run(wave); err != nil {
			return total, err
		}
		if total.CanaryLanded > before {
			size = min(2*size, largestWave)
		}
	}
	return total, nil
}

// canaryFirst moves the first of the letters that were replayed least often to the front: a report that died of its own after a replay is
// no good canary, however urgent it is. Those whose reports have landed are left to the sweep.
func canaryFirst(letters []dlq.Candidate) []dlq.Candidate {
	letters = slices.DeleteFunc(slices.Clone(letters), func(l dlq.Candidate) bool { return l.Landed })
	canary := 0
	for i, l := range letters {
		if l.Replays < letters[canary].Replays {
			canary = i
		}
	}
	if canary > 0 {
		first := letters[canary]
		letters = slices.Insert(slices.Delete(letters, canary, canary+1), 0, first)
	}
	return letters
}

func (c *Consumer) logReplay(l dlq.Candidate, o dlq.Outcome, why string) {
	if o == dlq.Replayed {
		site, _ := l.Site.Site()
		c.log.Info("report_replayed", "site", site, "key", l.Key.Short(), "replays", l.Replays+1, "reason", why)
	}
}

// patience is how long to wait until the reports of a wave have landed or died, from when the last was sent: other upstreams may have had
// the pace before. Then others get the turn, after a pause.
func (c *Consumer) patience() time.Duration { return 10 * c.holding() }
