package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// landed is why a letter is closed as recovered.
const landed = "the report has landed"

// burial is what became of a verdict: a letter, put now or by whoever was first; or nothing was buried.
type burial struct {
	letter dlq.Letter
	landed *keyvalue.Entry // the report is done
	over   bool            // this very message was buried before, and its letter acted on
}

// bury is row 7c: the letter, then the death in the trail, then TERM. attempts is how many were spent.
func (c *Consumer) bury(d *delivery, attempts int, v stream.Verdict) Outcome {
	var b burial
	err := c.persist(d, "dead letter", func(ctx context.Context) (err error) {
		b, err = c.putLetter(ctx, d.Message, func() bool { return d.again() || d.lost() || c.shaken(d) }, attempts, v)
		return err
	})
	switch {
	case errors.Is(err, errStopped):
		return c.handBack(d, attempts, &v) // the verdict travels
	case err != nil:
		return c.leave(d)
	case b.landed != nil:
		return c.skip(d, *b.landed)
	case b.over:
		d.terminate("buried before")
		d.tell(slog.LevelInfo, "skip_duplicate", slog.String("why", "it was buried before, and its letter acted on"))
		return Outcome{Kind: Duplicate, Key: d.Key, SiteID: d.Event.SiteID}
	}
	c.did("7c letter")
	return c.finishBurial(d, b.letter)
}

// finishBurial records the death of a letter that is put, and lets the message go.
func (c *Consumer) finishBurial(d *delivery, l dlq.Letter) Outcome {
	err := c.persist(d, "death in the audit trail", func(ctx context.Context) error {
		return c.recordDeath(ctx, l)
	})
	switch {
	case errors.Is(err, errStopped):
		v := stream.Verdict{Class: l.Class, Code: l.Code, Reason: l.Reason, FailedAt: l.FailedAt}
		return c.handBack(d, l.Attempts, &v)
	case err != nil:
		return c.leave(d)
	}
	c.did("7c recorded")
	d.terminate(l.Reason)
	d.tell(slog.LevelWarn, "routed_to_dlq", slog.String("class", string(l.Class)), slog.String("code", string(l.Code)), slog.Int("attempt", l.Attempts),
		slog.String("reason", l.Reason), slog.String("hash", l.Hash))
	c.due.warn(c, l, time.Now())
	return Outcome{
		Kind: Buried, Key: d.Key, SiteID: d.Event.SiteID, Attempts: l.Attempts, Class: l.Class, Code: l.Code, Reason: l.Reason,
	}
}

// recordDeath writes the death of a letter into the trail. A sound letter of which the trail says that it is forged was changed after its death had been
// recorded: nothing is left to write, and the message need not wait for a person.
func (c *Consumer) recordDeath(ctx context.Context, l dlq.Letter) error {
	err := c.letters.RecordDeath(ctx, l)
	if errors.Is(err, dlq.ErrForged) && l.Sound() {
		c.log.Error("ALARM: a dead letter is not what the trail has recorded; its message is let go, as its death is on record", "site", l.SiteID(), "key", l.Key.Short(), "err", err)
		return nil
	}
	return err
}

// cutShort finds the letter of this very message, left by a worker that died before it let the message go. One that the
// message's own verdict is to replace does not count.
func (c *Consumer) cutShort(d *delivery) (l dlq.Letter, found bool, err error) {
	err = c.persist(d, "letter look-up", func(ctx context.Context) (err error) {
		l, err = c.letters.Current(ctx, d.Site, d.Key)
		if found = err == nil && stays(l, d.Message, d.Carried.Verdict); errors.Is(err, dlq.ErrNotFound) {
			return nil
		}
		return err
	})
	return l, found, err
}

// stands reports whether a letter is about this very message. One that is not sound is about none: a death that nobody can record would keep
// the message in the queue for good.
func stands(l dlq.Letter, m stream.Message) bool { return l.Stands(m) && l.Sound() }

// stays reports whether a letter is about this very message and final: only a real verdict replaces `abandoned`.
func stays(l dlq.Letter, m stream.Message, v *stream.Verdict) bool {
	return stands(l, m) && (l.Class != report.ClassAbandoned || v == nil || v.Class == report.ClassAbandoned)
}

// putLetter puts the letter of a message, unless the ledger says meanwhile that the report is done. A letter of this very message
// stays as it is, except that a real verdict replaces `abandoned`. Of another letter of the report the larger count of
// replays and the earlier first failure are carried over. If others may have had the message, the trail is asked whether it
// was buried before: an operator may have replayed or discarded its letter since. It can be repeated.
func (c *Consumer) putLetter(ctx context.Context, m stream.Message, others func() bool, attempts int, v stream.Verdict) (burial, error) {
	for {
		entry, err := c.ledger.LookupLeader(ctx, m.Site, m.Key)
		if err != nil && !errors.Is(err, keyvalue.ErrNotFound) {
			return burial{}, err
		}
		current, err := c.letters.Current(ctx, m.Site, m.Key)
		if err != nil && !errors.Is(err, dlq.ErrNotFound) {
			return burial{}, err
		}
		exists := err == nil
		switch {
		case entry.Settles(m.Carried.Reopened):
			if exists { // whoever meets a letter whose report has landed closes it; if that fails, the sweep will
				if _, err := c.letters.Close(ctx, current, dlq.By{Actor: c.cfg.Worker, Reason: landed}); err != nil {
					c.log.Warn("letter of a landed report not closed yet", "key", m.Key.Short(), "err", err)
				}
			}
			return burial{landed: &entry}, nil
		case exists && stands(current, m):
			if current.Class != report.ClassAbandoned || v.Class == report.ClassAbandoned {
				return burial{letter: current}, nil
			}
		case others(): // not asked before the server has answered: it may have been away
			died, err := c.trail.Died(ctx, m.Site, m.Key, m.Identity.Stream, m.Identity.Sequence, m.PublishedAt, m.Carried.ReplayOf)
			if died || err != nil {
				return burial{over: died}, err
			}
		}
		l, err := c.letter(ctx, m, attempts, v)
		if err != nil {
			return burial{}, err
		}
		if exists {
			l.Replays = max(l.Replays, current.Replays)
			l.FirstFailedAt = earlier(l.FirstFailedAt, current.FirstFailedAt)
		}
		l.Sequence, err = c.letters.Put(ctx, l, current.Sequence)
		if !errors.Is(err, dlq.ErrConflict) {
			return burial{letter: l}, err
		}
	}
}

func (c *Consumer) letter(ctx context.Context, m stream.Message, attempts int, v stream.Verdict) (dlq.Letter, error) {
	first := earlier(v.FailedAt, m.Carried.FirstFailedAt)
	if m.Carried.FirstFailedAt.IsZero() && attempts > 1 {
		recorded, err := c.trail.FirstFailure(ctx, m.Site, m.Key, m.PublishedAt)
		if err != nil && !errors.Is(err, audit.ErrNotFound) {
			return dlq.Letter{}, err
		}
		first = earlier(first, recorded)
	}
	l := dlq.Letter{
		Key: m.Key, Site: m.Site, Class: v.Class, Code: v.Code, Reason: v.Reason, Hash: report.AuditHash(m.Key, v.Reason),
		Attempts: attempts, Subject: m.Subject, Source: m.Identity, PublishedAt: m.PublishedAt, Due: m.Event.Due,
		FirstFailedAt: first, FailedAt: v.FailedAt.UTC(), Replays: m.Carried.Replays, Reopened: m.Carried.Reopened,
		Worker: c.cfg.Worker, Version: c.cfg.Version, Body: m.Body,
	}
	if m.Invalid == nil {
		l.Upstream = dlq.Upstream(m.Event.SourceURI)
	}
	l.Foreign, l.Dropped = report.Foreign(m.Header)
	return l, nil
}

func attemptFailed(d *delivery, n int, j judgement, worker string) audit.Event {
	return audit.Event{
		Time: time.Now().UTC(), Kind: audit.AttemptFailed, Key: d.Key, SiteID: d.Event.SiteID, Worker: worker, Attempt: n,
		Code: j.code, Reason: j.reason, Delay: j.delay.String(), Stream: d.Ref.Stream, Sequence: d.Ref.Sequence, Delivery: d.count,
	}
}

// earlier is the earlier of two times of which either may be unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b.UTC()
	}
	return a.UTC()
}
