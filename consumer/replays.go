package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

const (
	scheduleTurn = "replay" // name of the schedule's turn
	// longestPause is the longest time between two such replays, after canaries that have died.
	longestPause = time.Hour
	// shortestRest is what a report that was replayed once waits twice of, from its death on, before it is replayed automatically.
	shortestRest = 10 * time.Minute
	// largestWave is the most letters that are out before it is known how they fare.
	largestWave = 100
	// sideBySide is how many upstreams' letters are replayed at once, on schedule, and as many because the upstreams answer again.
	sideBySide = 16
)

// replayOnSchedule replays dead letters every Config.ReplayEvery if this worker gets the turn, until ctx ends.
func (c *Consumer) replayOnSchedule(ctx context.Context) {
	var upstreams errgroup.Group
	upstreams.SetLimit(sideBySide)
	defer upstreams.Wait()
	for wait := c.lookout(); ; {
		if pause(ctx, wait); ctx.Err() != nil {
			return
		}
		turn, won, err := c.turns.Claim(ctx, scheduleTurn, c.cfg.Worker, c.cfg.ReplayEvery)
		wait = max(turn.Left(c.cfg.ReplayEvery), c.lookout())
		if won && err == nil {
			err = c.replayAllDead(ctx, turn.Now(), &upstreams)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("scheduled replay: the next turn will try again", "err", err)
		}
	}
}

// replayAllDead replays the letters of the configured classes, of each upstream apart from the others. It waits only until the last
// of them has begun.
func (c *Consumer) replayAllDead(ctx context.Context, now time.Time, upstreams *errgroup.Group) error {
	names, letters, err := c.replayable(ctx, now, c.cfg.ReplayClasses...)
	for _, name := range names {
		upstreams.Go(func() error {
			turn, _, won, err := c.takeUpstream(ctx, name, false)
			if won {
				err = c.replayUpstream(ctx, turn, name, letters[name], "on schedule")
			}
			if err != nil && ctx.Err() == nil {
				c.log.Warn("scheduled replay: the next turn will try again", "upstream", name, "err", err)
			}
			return nil
		})
	}
	return err
}

// replayable lists the letters of these classes that may be replayed, by upstream, and the upstreams in the order of their most
// urgent letters.
func (c *Consumer) replayable(ctx context.Context, now time.Time, classes ...report.Class) (names []string, letters map[string][]dlq.Candidate, err error) {
	letters = map[string][]dlq.Candidate{}
	for _, class := range classes {
		plan, err := c.letters.Plan(ctx, dlq.PlanOptions{
			Filter: dlq.Filter{Class: class},
			Rested: func(l dlq.Candidate) bool { return mayHaveRested(l, now) },
		})
		if err != nil {
			return nil, nil, err
		}
		for _, l := range plan.Send {
			name := report.Line(l.Upstream, report.MaxHeaderValue)
			if letters[name] == nil {
				names = append(names, name)
			}
			letters[name] = append(letters[name], l)
		}
	}
	return names, letters, nil
}

// rest is how long a report waits after its death before it is replayed automatically, if it was replayed before.
func rest(replays int) time.Duration {
	if replays == 0 {
		return 0
	}
	return shortestRest << min(replays, 16)
}

// mayHaveRested is a first look at a letter's own time, which the clock of the worker that wrote it has set. The last word has the
// server's: see Consumer.rested.
func mayHaveRested(l dlq.Candidate, now time.Time) bool {
	age := now.Sub(l.FailedAt)
	return age < 0 || age >= rest(l.Replays)
}

// rested asks the server how long ago it stored a letter.
func (c *Consumer) rested(ctx context.Context, l dlq.Candidate, now time.Time) (bool, error) {
	if l.Replays == 0 {
		return true, nil
	}
	m, err := jsapi.Get(ctx, c.js, dlq.Stream, l.Sequence)
	switch {
	case errors.Is(err, jsapi.ErrNotFound): // it has left
		return false, nil
	case err != nil:
		return false, err
	}
	return now.Sub(m.Time) >= rest(l.Replays), nil
}

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
		c.log.Info("automatic replay", "upstream", name, "why", why, "replayed", tally.Sent, "landed", tally.CanaryLanded, "died", tally.CanaryDied,
			"closed", tally.ByOutcome[dlq.Recovered], "letters", len(letters), "stopped", tally.Stopped)
	}
	switch {
	case lost:
		return keyvalue.ErrTaken
	case err != nil:
		return err
	case tally.Stopped != "":
		turn.Pause = min(max(2*turn.Pause, 2*c.holding()), longestPause, c.cfg.ReplayEvery)
		c.upstreams.failed(name)
	default:
		turn.Pause = c.holding()
	}
	turn.Over = true
	_, err = c.turns.Renew(ctx, turn)
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
	c.replaying.Add(1)
	defer c.replaying.Add(-1)
	total := dlq.Tally{ByOutcome: map[dlq.Outcome]int{}}
	run := func(wave []dlq.Candidate, canary int) error {
		tally, err := c.letters.ReplayAll(ctx, wave, dlq.Bulk{
			By:     dlq.By{Actor: c.cfg.Worker, Reason: why},
			Rate:   c.cfg.ReplayRate / float64(c.replaying.Load()),
			Canary: canary,
			Each:   func(l dlq.Candidate, o dlq.Outcome) { c.logReplay(l, o, why) },
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
	landed, left := split(letters)
	if err := run(landed, 0); err != nil { // only closes them
		return total, err
	}
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
		if err := run(wave, len(wave)); err != nil {
			return total, err
		}
		if total.CanaryLanded > before {
			size = min(2*size, largestWave)
		}
	}
	return total, nil
}

// split sets aside the letters whose reports have landed, and moves the first of those that were replayed least often to the front: a
// report that died of its own after a replay is no good canary, however urgent it is.
func split(letters []dlq.Candidate) (landed, left []dlq.Candidate) {
	canary := 0
	for _, l := range letters {
		if l.Landed {
			landed = append(landed, l)
			continue
		}
		if left = append(left, l); l.Replays < left[canary].Replays {
			canary = len(left) - 1
		}
	}
	if canary > 0 {
		first := left[canary]
		copy(left[1:canary+1], left[:canary])
		left[0] = first
	}
	return landed, left
}

func (c *Consumer) logReplay(l dlq.Candidate, o dlq.Outcome, why string) {
	if o == dlq.Replayed {
		site, _ := l.Site.Site()
		c.log.Info("report_replayed", "site", site, "key", l.Key.Short(), "replays", l.Replays+1, "reason", why)
	}
}

// lookout is how often to look whether there is something to replay.
func (c *Consumer) lookout() time.Duration { return min(15*time.Second, c.cfg.ReplayEvery/40) }

// holding is how long an upstream stays with a worker that does not say that it is still at it, and the shortest time between two
// replays of one upstream's letters because it answers again.
func (c *Consumer) holding() time.Duration { return min(time.Minute, c.cfg.ReplayEvery/10) }
