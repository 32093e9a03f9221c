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

// knownUpstreams bounds how many upstreams a worker remembers: publishers choose the hosts. The letters of others wait for the
// schedule.
const knownUpstreams = 1000

// upstreams is what this process has seen of the upstreams since it started.
type upstreams struct {
	mu    sync.Mutex
	known map[string]*upstream
}

type upstream struct {
	failing  bool
	answers  time.Time // when it was seen to answer again, while its letters are to be replayed for that; else zero
	tryAfter time.Time // when to ask for its turn
}

// note learns from what became of a delivery whether its upstream answers. Only a committed report proves that it does.
func (c *Consumer) note(d *delivery, o Outcome) {
	if c.cfg.ReplayEvery == 0 || d.Invalid != nil {
		return
	}
	name := report.Line(dlq.Upstream(d.Event.SourceURI), report.MaxHeaderValue)
	switch {
	case o.Kind == Succeeded:
		c.upstreams.answered(name)
	case o.Kind == Retried, o.Kind == Buried && o.Class == report.ClassExhausted:
		c.upstreams.failed(name)
	}
}

// answered notes that an upstream answers. It answers again if it failed before, or is seen for the first time: nobody knows what was
// before this process.
func (u *upstreams) answered(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.remember(name, false); up != nil && up.failing {
		up.failing, up.answers = false, time.Now()
	}
}

// failed notes that an upstream does not answer: nothing is to be replayed then.
func (u *upstreams) failed(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.remember(name, true); up != nil {
		up.failing, up.answers = true, time.Time{}
	}
}

// remember finds an upstream, or adds it as one that fails. If there are too many, one that fails takes the place of one of which
// nothing is to be remembered; there may be none.
func (u *upstreams) remember(name string, replace bool) *upstream {
	if up := u.known[name]; up != nil {
		return up
	}
	if len(u.known) >= knownUpstreams && replace {
		for other, up := range u.known {
			if !up.failing && up.answers.IsZero() {
				delete(u.known, other)
				break
			}
		}
	}
	if len(u.known) >= knownUpstreams {
		return nil
	}
	if u.known == nil {
		u.known = map[string]*upstream{}
	}
	up := &upstream{failing: true}
	u.known[name] = up
	return up
}

// due lists the upstreams that answer again and whose turn is to be asked for, and since when they answer.
func (u *upstreams) due() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := map[string]time.Time{}
	for name, up := range u.known {
		if !up.answers.IsZero() && time.Now().After(up.tryAfter) {
			found[name] = up.answers
		}
	}
	return found
}

// settle notes that the letters of an upstream have been seen to, unless it has failed and answered again meanwhile.
func (u *upstreams) settle(name string, since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.known[name]; up != nil && up.answers.Equal(since) {
		up.answers = time.Time{}
	}
}

// later puts the next try off.
func (u *upstreams) later(name string, d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.known[name]; up != nil {
		up.tryAfter = time.Now().Add(d)
	}
}

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
				if err := c.replayUpstream(ctx, turn, name, letters[name], answersAgain(name)); err == nil {
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
		case turn.Over && turn.Age < time.Since(since): // another worker saw it too, and has done it
			c.upstreams.settle(name, since)
		default:
			c.upstreams.later(name, left)
		}
	}
	if len(taken) == 0 {
		return nil, nil, nil
	}
	_, letters, err := c.replayable(ctx, now, report.ClassExhausted)
	if err != nil {
		return giveUp(err)
	}
	return taken, letters, nil
}

func answersAgain(name string) string {
	if name == "file" {
		return "files can be read again"
	}
	return name + " answers again"
}
