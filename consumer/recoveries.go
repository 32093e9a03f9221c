package consumer

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// replayRecovered replays the exhausted letters of upstreams that answer again, each if this worker gets its turn, until ctx ends.
func (c *Consumer) replayRecovered(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	free := semaphore.NewWeighted(sideBySide)
	for {
		if pause(ctx, c.lookout()); ctx.Err() != nil {
			return
		}
		due := c.upstreams.due()
		if len(due) == 0 {
			continue
		}
		taken, letters, err := c.takeRecovered(ctx, due, free)
		for name, turn := range taken {
			running.Go(func() {
				defer free.Release(1)
				if err := c.replayUpstream(ctx, turn, name, letters[name], name+" answers again"); err == nil {
					c.upstreams.settle(name, due[name])
				} else if ctx.Err() == nil {
					c.log.Warn("replay of what an upstream has kept: its next turn will try again", "upstream", name, "err", err)
				}
			})
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("replay of what upstreams have kept: the next look will try again", "err", err)
		}
	}
}

// takeRecovered asks for the turns of upstreams, as far as there is room, and only if it gets one reads the letters. With an error, none
// is taken: the turns that it got lapse.
func (c *Consumer) takeRecovered(ctx context.Context, due map[string]time.Time, free *semaphore.Weighted) (map[string]keyvalue.Turn, map[string][]dlq.Candidate, error) {
	s, err := c.js.Stream(ctx, dlq.Stream)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]keyvalue.Turn{}
	giveUp := func(err error) (map[string]keyvalue.Turn, map[string][]dlq.Candidate, error) {
		free.Release(int64(len(taken)))
		return nil, nil, err
	}
	var now time.Time
	for name, since := range due {
		if s.CachedInfo().State.Msgs == 0 { // no letters at all
			c.upstreams.settle(name, since)
			continue
		}
		if !free.TryAcquire(1) {
			break
		}
		turn, left, won, err := c.takeUpstream(ctx, name, true)
		if won {
			taken[name], now = turn, turn.Now()
			continue
		}
		free.Release(1)
		switch {
		case err != nil:
			return giveUp(err)
		case turn.Over && turn.Age < time.Since(since) && turn.Pause <= c.holding(): // another worker saw it too, and has done it
			c.upstreams.settle(name, since)
		case turn.Over && turn.Age < time.Since(since) && turn.Holder != c.cfg.Worker: // and its canary has died, or is slow
			c.upstreams.failed(name)
		default:
			c.upstreams.later(name, left)
		}
	}
	if len(taken) == 0 {
		return nil, nil, nil
	}
	only := "" // of several, one reading serves all
	for name := range taken {
		if len(taken) == 1 {
			only = name
		}
	}
	_, letters, err := c.replayable(ctx, now, only, report.ClassExhausted)
	if err != nil {
		return giveUp(err)
	}
	return taken, letters, nil
}
