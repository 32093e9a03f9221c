package consumer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/guyline/guyline/keyvalue"
)

// process takes one delivery from its arrival to its one settlement, and says what became of it; nothing yet if its commit is on its
// way: committed goes on then. The numbers are the rows of the package's documentation. Whatever returns an error has not settled
// anything: letGo does.
func (c *Consumer) process(d *delivery) Outcome {
	n, max := d.attempt(c.cfg.Queues.MaxAttempts), c.cfg.Queues.MaxAttempts
	c.did("1 pulled")
	if c.stopping.Err() != nil && n <= max && d.Carried.Verdict == nil && d.Invalid == nil {
		return c.handBack(d, n-1, nil) // 7d: it came with the last pull
	}

	if d.Invalid != nil { // 2
		return c.bury(d, 0, unreadable(d.Message, time.Now()))
	}
	c.did("2 decoded")

	entry, err := c.lookup(d) // 3
	if err != nil {
		return c.letGo(d, n, err)
	}
	if entry.Settles(d.Carried.Reopened) {
		return c.skip(d, entry)
	}
	c.did("3 ledger")

	if d.again() { // 3b
		letter, cutShort, err := c.cutShort(d)
		if err != nil {
			return c.letGo(d, n, err)
		}
		if cutShort {
			return c.finishBurial(d, letter)
		}
	}
	c.did("3b no letter")

	if v := d.Carried.Verdict; v != nil { // 4
		return c.bury(d, d.Carried.Attempts, *v)
	}
	known, err := c.known(d)
	if err != nil {
		return c.letGo(d, n, err)
	}
	if !known {
		return c.bury(d, n-1, unknownSite(d.Message, time.Now()))
	}
	if n > max {
		return c.bury(d, max, c.abandoned(d.Message))
	}
	c.did("4 admitted")

	return c.work(d, n, entry.Revision)
}

// work is the path from row 4b on, of a report whose entry in the ledger is not final, and has a revision.
func (c *Consumer) work(d *delivery, n int, revision uint64) Outcome {
	leave, ok, err := c.enter(d, n) // 4b
	if err != nil {
		return c.letGo(d, n, err)
	}
	if !ok {
		return c.handBack(d, n-1, nil)
	}
	if why, closed := c.closed(d); closed { // 4c
		if o, ok := c.park(d, n-1, why, d.Carried.Suspect); ok {
			leave()
			return o
		}
	}
	result, err := c.attempt(d) // 5
	leave()
	c.did("5 attempted")
	j := judge(err, n, c.cfg.Queues.MaxAttempts, c.aside(d, n, err), c.cfg.Backoff, rand.Float64) // 6

	if j.step == park { // 7e
		if o, ok := c.parkFailed(d, n, j); ok {
			return o
		}
		j = judge(err, n, c.cfg.Queues.MaxAttempts, false, c.cfg.Backoff, rand.Float64)
	}
	switch j.step {
	case commit:
		c.commit(d, n, result, revision) // 7a
		return Outcome{}
	case retry:
		return c.retry(d, n, j) // 7b
	case bury:
		return c.bury(d, n, j.verdict(time.Now())) // 7c
	default:
		return c.handBack(d, n-1, nil) // 7d
	}
}

// committed goes on after row 7a: now is the entry that stands, ours or another's.
func (c *Consumer) committed(d *delivery, n int, now keyvalue.Entry, err error) Outcome {
	if err != nil {
		return c.letGo(d, n, err)
	}
	c.did("7a committed")
	switch {
	case now.State == keyvalue.Reopened: // an operator wants a corrected file worked
		return c.work(d, n, now.Revision)
	case now.Commit != d.commitID() || now.Worker != c.cfg.Worker:
		return c.skip(d, now)
	}
	return c.succeed(d, n)
}

// succeed acks a report whose entry is ours.
func (c *Consumer) succeed(d *delivery, n int) Outcome {
	d.ack()
	d.tell(slog.LevelInfo, "report_succeeded", slog.Int("attempt", n))
	return Outcome{Kind: Succeeded, Key: d.Key, SiteID: d.Event.SiteID, Attempts: n}
}

// lookup reads the ledger's entry of a report; revision 0 means that there seems to be none.
func (c *Consumer) lookup(d *delivery) (entry keyvalue.Entry, err error) {
	switch {
	case d.ahead.entry != nil:
		return *d.ahead.entry, nil
	case d.ahead.looked:
		return keyvalue.Entry{}, nil
	}
	err = c.persist(d, "ledger look-up", func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout) // one request: if it is lost, repeat it soon
		defer cancel()
		if entry, err = c.ledger.Lookup(ctx, d.Site, d.Key); errors.Is(err, keyvalue.ErrNotFound) {
			return nil
		}
		return err
	})
	return entry, err
}

func (c *Consumer) known(d *delivery) (known bool, err error) {
	if d.ahead.known {
		return true, nil
	}
	err = c.persist(d, "site look-up", func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		known, err = c.sites.Known(ctx, d.Site)
		return err
	})
	return known, err
}

// skip acks a report that is settled already.
func (c *Consumer) skip(d *delivery, entry keyvalue.Entry) Outcome {
	d.ack()
	d.tell(slog.LevelInfo, "skip_duplicate", slog.Time("settled", entry.Time), slog.String("by", entry.Worker))
	return Outcome{Kind: Duplicate, Key: d.Key, SiteID: d.Event.SiteID}
}

// retry asks for another delivery after the judged delay.
func (c *Consumer) retry(d *delivery, n int, j judgement) Outcome {
	if err := c.trail.AppendAsync(attemptFailed(d, n, j, c.cfg.Worker)); err != nil {
		d.log().Warn("failed attempt not recorded", "err", err)
	}
	c.did("7b recorded")
	if !d.again() && !d.lost() && !c.shaken(d) {
		c.ours.add(d)
	}
	d.retryIn(j.delay)
	level := slog.LevelWarn
	if j.held {
		level = slog.LevelError
	}
	d.tell(level, "report_retry", slog.Int("attempt", n), slog.String("delay", j.delay.String()), slog.String("code", string(j.code)),
		slog.String("reason", j.reason))
	return Outcome{Kind: Retried, Key: d.Key, SiteID: d.Event.SiteID, Attempts: n, Code: j.code, Reason: j.reason}
}

// letGo gives a report back that the server would not let us settle: errStopped hands it back, and if the
// connection is gone the server delivers it again by itself.
func (c *Consumer) letGo(d *delivery, n int, err error) Outcome {
	switch {
	case !errors.Is(err, errStopped):
	case d.Carried.Verdict != nil:
		return c.handBack(d, d.Carried.Attempts, nil)
	case n <= c.cfg.Queues.MaxAttempts:
		return c.handBack(d, n-1, nil)
	}
	return c.leave(d)
}

func (c *Consumer) leave(d *delivery) Outcome {
	return Outcome{Kind: LeftAlone, Key: d.Key, SiteID: d.Event.SiteID}
}
