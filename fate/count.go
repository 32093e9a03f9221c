package fate

import (
	"context"
	"slices"
	"time"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Counts is where all reports stand, at about one moment.
type Counts struct {
	Waiting  uint64                  `json:"waiting"`
	InWork   uint64                  `json:"in_work"` // or waiting for their retry
	Parked   uint64                  `json:"parked"`
	Down     []Down                  `json:"down,omitempty"` // the upstreams whose reports are parked, most first
	Stranded uint64                  `json:"stranded"`       // the server will never deliver them again; the sweep will bury them
	Done     uint64                  `json:"done"`
	Dead     map[report.Class]uint64 `json:"dead"`

	Quarantined uint64 `json:"quarantined"` // of the dead: replayed too often, see dlq.Queue.Quarantined
	DueSoon     uint64 `json:"due_soon"`    // of the dead: the deadline is near, or has passed
	Soonest     []Due  `json:"soonest,omitempty"`

	Paused  []string  `json:"paused,omitempty"`  // the queues of which nothing is delivered, as their consumers are paused
	Pulling int       `json:"pulling"`           // open pull requests of workers
	Oldest  time.Time `json:"oldest,omitzero"`   // when the oldest report in the queues was handed over; with more than 5,000 hand-backs and replays in them, when it was put there
	NextDue time.Time `json:"next_due,omitzero"` // the earliest deadline among the dead
}

// Due is a dead report whose deadline is near.
type Due struct {
	Key    report.Key  `json:"key"`
	SiteID string      `json:"site_id"`
	Due    time.Time   `json:"due"`
	Code   report.Code `json:"code"`
	Reason string      `json:"reason"`
}

// soonest is how many of [Counts.Soonest] there are at most, the earliest deadline first.
const soonest = 5

// manyCopies is how many of the requeue stream are read, beside the parked ones. Of more, when they were put there has to do.
const manyCopies = 5_000

func (c *Counts) older(t time.Time) {
	if c.Oldest.IsZero() || t.Before(c.Oldest) {
		c.Oldest = t
	}
}

// DeadTotal is how many are dead.
func (c Counts) DeadTotal() (n uint64) {
	for _, of := range c.Dead {
		n += of
	}
	return n
}

// Pulling counts the open pull requests of workers alone, as they come and go.
func (f *Finder) Pulling(ctx context.Context) (n int, err error) {
	for _, name := range stream.Names() {
		s, err := f.queues.State(ctx, name)
		if err != nil {
			return n, err
		}
		n += s.Pulling
	}
	return n, nil
}

// Working reports whether anybody pulls from the queues or has a report in work. There is a moment between two pulls, so a no is only
// a reason to look again.
func (f *Finder) Working(ctx context.Context) (bool, error) {
	for _, name := range stream.Names() {
		s, err := f.queues.State(ctx, name)
		if err != nil || s.Pulling > 0 || s.InWork > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// Count reads where all reports stand. The dead are counted from their headers.
func (f *Finder) Count(ctx context.Context) (Counts, error) { return f.CountDue(ctx, time.Time{}) }

// CountDue is [Finder.Count], and DueSoon and Soonest are about the dead that are due before a time.
func (f *Finder) CountDue(ctx context.Context, before time.Time) (Counts, error) {
	c := Counts{Dead: map[report.Class]uint64{}}
	for _, name := range stream.Names() {
		s, err := f.queues.State(ctx, name)
		if err != nil {
			return c, err
		}
		c.Waiting += s.Waiting
		c.InWork += s.InWork
		c.Parked += s.Parked
		c.Stranded += s.Stranded
		c.Pulling += s.Pulling
		if s.Paused {
			c.Paused = append(c.Paused, name)
		}
		switch many := s.Stored > s.Parked+manyCopies; {
		case name == stream.Reports:
			c.Oldest = s.Oldest
		case s.Stored > 0:
			if many {
				c.older(s.Oldest)
			}
			if err := f.countCopies(ctx, &c, many); err != nil {
				return c, err
			}
		}
	}
	if err := f.countDead(ctx, &c, before); err != nil {
		return c, err
	}
	var err error
	c.Done, err = f.ledger.Len(ctx)
	return c, err
}

func (f *Finder) countDead(ctx context.Context, c *Counts, before time.Time) error {
	soon := dlq.Urgent[Due]{Limit: soonest}
	for l, err := range f.letters.List(ctx, dlq.Filter{}) {
		if err != nil {
			return err
		}
		c.Dead[l.Class]++
		if f.letters.Quarantined(l) {
			c.Quarantined++
		}
		if l.Due.IsZero() {
			continue
		}
		if c.NextDue.IsZero() || l.Due.Before(c.NextDue) {
			c.NextDue = l.Due
		}
		if !l.Due.Before(before) {
			continue
		}
		if c.DueSoon++; soon.Fits(l.Rank()) {
			soon.Add(l.Rank(), Due{l.Key, l.SiteID(), l.Due, l.Code, l.Reason})
		}
	}
	c.Soonest = slices.Collect(soon.All())
	return nil
}
