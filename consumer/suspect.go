package consumer

import (
	"context"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/stream"
)

// A report may take its worker down, and then everything that is in the process's hand is charged an attempt, too. A report whose last
// delivery ended without a verdict is a suspect: it is tried alone, so that innocent reports are not charged a second time.

// enter is row 4b: it lets the report's attempt begin, and returns what must be called when that is over. A suspect first waits until
// nobody uses any slot of the process but itself: then nothing else is in hand and no pull is open. enter returns false if the report has to be
// handed back: another suspect waits to be alone, or is.
func (c *Consumer) enter(d *delivery, n int) (leave func(), ok bool, err error) {
	suspect, err := c.isSuspect(d)
	if err != nil {
		return nil, false, err
	}
	d.entered, d.Carried.Suspect = true, suspect
	if !suspect {
		return func() {}, true, nil
	}
	if d.lost() { // not worth that everything else waits for it
		return nil, false, nil
	}
	wait, cancel := context.WithTimeout(c.stopping, c.cfg.AttemptTimeout+c.handlerGrace()+longestPull)
	defer cancel()
	leave, alone, claimed := c.slots.claimAll(wait)
	switch {
	case !claimed:
		return nil, false, nil
	case c.stopping.Err() != nil, d.lost():
		leave()
		return nil, false, nil
	case !alone: // a handler that ignores its context keeps a slot
		d.log().Warn("a suspect report is not tried alone: another handler does not return")
	}
	ctx, done := context.WithTimeout(context.Background(), requestTimeout)
	defer done()
	err = c.trail.Append(ctx, audit.Event{ // waited for, once: should it take this worker down, the trail names it
		Time: time.Now().UTC(), Kind: audit.Suspect, Key: d.Key, SiteID: d.Event.SiteID, Worker: c.cfg.Worker, Attempt: n,
		Reason: "the last delivery ended without a verdict, as if its worker had died; tried alone",
		Stream: d.Ref.Stream, Sequence: d.Ref.Sequence, Delivery: d.count,
	})
	if err != nil {
		d.log().Warn("suspicion not recorded", "err", err)
	}
	d.log().Warn("report_suspected", "attempt", n, "deliveries", d.count)
	return leave, true, nil
}

// abandoned is the verdict on a report that no delivery is left for. If the trail cannot be read it says less.
func (c *Consumer) abandoned(m stream.Message) stream.Verdict {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	pass, err := c.trail.Pass(ctx, m.Site, m.Key, m.PublishedAt)
	if err != nil {
		c.log.Warn("what became of an abandoned report's deliveries is not known", "key", m.Key.Short(), "err", err)
		pass.Failed = c.cfg.Queues.MaxAttempts - 1
	}
	return abandoned(c.cfg.Queues.MaxAttempts, pass, time.Now())
}

// secondLook is how long a failed attempt's record may be on its way when the next delivery arrives.
const secondLook = 200 * time.Millisecond

// isSuspect reports whether the last delivery of the report ended without a verdict: it was not the first, and the trail does not say that
// it failed. If that record was lost, an innocent report is tried alone.
func (c *Consumer) isSuspect(d *delivery) (bool, error) {
	if suspect, known := d.suspicion(); known {
		return suspect, nil
	}
	for look := 1; ; look++ {
		var failed bool
		err := c.persist(d, "look-up in the audit trail", func(ctx context.Context) (err error) {
			failed, err = c.failed(ctx, d)
			return err
		})
		if failed || err != nil || look == 2 {
			return !failed, err
		}
		select {
		case <-time.After(secondLook):
		case <-c.stopping.Done():
		}
	}
}

// suspicion is what isSuspect says, as far as that is known without asking.
func (d *delivery) suspicion() (suspect, known bool) {
	switch {
	case d.entered:
		return d.Carried.Suspect, true
	case d.unseen: // nor does the server know of that delivery
		return true, true
	case d.count == 1:
		return d.Carried.Suspect, true
	}
	return false, d.ours || d.ahead.failed
}

// staysSuspect is what isSuspect says of a report that is handed back, after one look, as the worker may be stopping because the server
// does not answer: without an answer it is one.
func (c *Consumer) staysSuspect(ctx context.Context, d *delivery) bool {
	if suspect, known := d.suspicion(); known {
		return suspect
	}
	failed, err := c.failed(ctx, d)
	return !failed || err != nil
}

// failed reports whether the trail says that the delivery before this one ended with a failed attempt.
func (c *Consumer) failed(ctx context.Context, d *delivery) (bool, error) {
	return c.trail.Failed(ctx, d.Site, d.Key, d.Ref.Stream, d.Ref.Sequence, d.count-1)
}
