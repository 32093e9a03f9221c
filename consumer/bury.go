package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// bury is row 7c: the letter, then the death in the trail, then TERM. attempts is how many were spent.
func (c *Consumer) bury(d *delivery, attempts int, v stream.Verdict) Outcome {
	var (
		letter dlq.Letter
		entry  keyvalue.Entry
	)
	err := c.persist(d, "dead letter", func(ctx context.Context) (err error) {
		letter, entry, err = c.putLetter(ctx, d.Message, attempts, v)
		return err
	})
	switch {
	case errors.Is(err, errStopped):
		return c.handBack(d, attempts, &v) // the verdict travels
	case err != nil:
		return c.leave(d)
	case entry.Settles(d.Carried.Reopened):
		return c.skip(d, entry)
	}
	c.did("7c letter")
	return c.finishBurial(d, letter)
}

// finishBurial records the death of a letter that is put, and lets the message go.
func (c *Consumer) finishBurial(d *delivery, l dlq.Letter) Outcome {
	err := c.persist(d, "death in the audit trail", func(ctx context.Context) error {
		return c.letters.RecordDeath(ctx, l)
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
	d.log.Warn("routed_to_dlq", "class", l.Class, "code", l.Code, "attempt", l.Attempts, "reason", l.Reason, "hash", l.Hash)
	return Outcome{
		Kind: Buried, Key: d.Key, SiteID: d.Event.SiteID, Attempts: l.Attempts, Class: l.Class, Code: l.Code, Reason: l.Reason,
	}
}

// cutShort finds the letter of this very message, left by a worker that died before it let the message go.
func (c *Consumer) cutShort(d *delivery) (l dlq.Letter, found bool, err error) {
	err = c.persist(d, "letter look-up", func(ctx context.Context) (err error) {
		l, err = c.letters.Current(ctx, d.Site, d.Key)
		if found = err == nil && l.Stands(d.Message); errors.Is(err, dlq.ErrNotFound) {
			return nil
		}
		return err
	})
	return l, found, err
}

// putLetter puts the letter of a message, unless the ledger says meanwhile that the report is done, which entry then tells. A
// letter of this very message stays as it is, except that a real verdict replaces `abandoned`. Of another letter
// of the report the larger count of replays and the earlier first failure are carried over. It can be repeated.
func (c *Consumer) putLetter(ctx context.Context, m stream.Message, attempts int, v stream.Verdict) (l dlq.Letter, entry keyvalue.Entry, err error) {
	for {
		entry, err = c.ledger.LookupLeader(ctx, m.Site, m.Key)
		if err != nil && !errors.Is(err, keyvalue.ErrNotFound) {
			return l, entry, err
		}
		current, err := c.letters.Current(ctx, m.Site, m.Key)
		if err != nil && !errors.Is(err, dlq.ErrNotFound) {
			return l, entry, err
		}
		exists := err == nil
		if entry.Settles(m.Carried.Reopened) {
			if exists { // whoever meets a letter whose report has landed closes it
				_, err = c.letters.Close(ctx, current, dlq.By{Actor: c.cfg.Worker, Reason: "the report has landed"})
				return l, entry, err
			}
			return l, entry, nil
		}
		if exists && current.Stands(m) && (current.Class != report.ClassAbandoned || v.Class == report.ClassAbandoned) {
			return current, entry, nil
		}
		if l, err = c.letter(ctx, m, attempts, v); err != nil {
			return l, entry, err
		}
		if exists {
			l.Replays = max(l.Replays, current.Replays)
			l.FirstFailedAt = earlier(l.FirstFailedAt, current.FirstFailedAt)
		}
		l.Sequence, err = c.letters.Put(ctx, l, current.Sequence)
		if !errors.Is(err, dlq.ErrConflict) {
			return l, entry, err
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
