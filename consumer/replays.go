package consumer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

const (
	scheduleTurn = "replay" // name of the schedule's turn
	// shortestRest is half of what a report waits that was replayed once, from its death on, before it is replayed automatically.
	shortestRest = 10 * time.Minute
	// lastRest is what a report waits at least before the replay after which its letter is quarantined, while nobody has seen its upstream
	// answer: the last one is not to be spent on an outage that a night or a weekend may end.
	lastRest = 72 * time.Hour
	// sideBySide is how many upstreams' letters are replayed at once, on schedule, and as many because the upstreams answer again. Most of
	// that time is spent waiting for canaries.
	sideBySide = 64
)

// replayOnSchedule replays dead letters every Config.ReplayEvery if this worker gets the turn, until ctx ends. The first turn of all only
// begins the first interval.
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
		if won && !turn.First {
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
	names, letters, err := c.replayable(ctx, now, "", c.cfg.ReplayClasses...)
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

// replayable lists the letters of these classes that may be replayed, of one upstream or of all (""), by upstream, and the upstreams
// in the order of their most urgent letters.
func (c *Consumer) replayable(ctx context.Context, now time.Time, upstream string, classes ...report.Class) (names []string, letters map[string][]dlq.Candidate, err error) {
	letters = map[string][]dlq.Candidate{}
	for _, class := range classes {
		plan, err := c.letters.Plan(ctx, dlq.PlanOptions{
			Filter: dlq.Filter{Class: class, Upstream: upstream},
			Rested: func(l dlq.Candidate) bool { return c.mayHaveRested(l, now) },
		})
		if err != nil {
			return nil, nil, err
		}
		for _, l := range plan.Send {
			name := upstreamOf(l)
			if letters[name] == nil {
				names = append(names, name)
			}
			letters[name] = append(letters[name], l)
		}
	}
	return names, letters, nil
}

// upstreamOf is the name that a letter's upstream has among the known ones.
func upstreamOf(l dlq.Candidate) string { return report.Line(l.Upstream, report.MaxHeaderValue) }

// rest is how long a report waits after its death before it is replayed automatically: not at all if it was never replayed.
func rest(replays int) time.Duration {
	if replays == 0 {
		return 0
	}
	return shortestRest << min(replays, 16)
}

// rest is the [rest] of a letter. Before its last replay it is longer, unless this worker sees that the upstream answers.
func (c *Consumer) rest(l dlq.Candidate) time.Duration {
	if l.Replays+1 >= c.cfg.ReplayMax && !c.upstreams.well(upstreamOf(l)) {
		return max(lastRest, rest(l.Replays))
	}
	return rest(l.Replays)
}

// mayHaveRested is a first look at a letter's own time, which the clock of the worker that wrote it has set. The last word has the
// server's: see Consumer.rested.
func (c *Consumer) mayHaveRested(l dlq.Candidate, now time.Time) bool {
	age := now.Sub(l.FailedAt)
	return age < 0 || age >= c.rest(l)
}

// rested asks the server how long ago it stored a letter.
func (c *Consumer) rested(ctx context.Context, l dlq.Candidate, now time.Time) (bool, error) {
	needed := c.rest(l)
	if needed == 0 {
		return true, nil
	}
	m, err := jsapi.Get(ctx, c.js, dlq.Stream, l.Sequence)
	switch {
	case errors.Is(err, jsapi.ErrNotFound): // it has left
		return false, nil
	case err != nil:
		return false, err
	}
	return now.Sub(m.Time) >= needed, nil
}

// lookout is how often to look whether there is something to replay.
func (c *Consumer) lookout() time.Duration { return min(15*time.Second, c.cfg.ReplayEvery/40) }

// holding is how long an upstream stays with a worker that does not say that it is still at it, and the shortest time between two
// replays of one upstream's letters because it answers again.
func (c *Consumer) holding() time.Duration { return min(time.Minute, c.cfg.ReplayEvery/10) }
