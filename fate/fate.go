package fate

import (
	"context"
	"errors"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Fate is where a report stands.
type Fate string

const (
	Done      Fate = "done"
	Waiting   Fate = "waiting"
	Dead      Fate = "dead"
	Discarded Fate = "discarded"
	Unknown   Fate = "unknown"
)

// Answer is a report's fate and what it rests on.
type Answer struct {
	Fate      Fate
	Key       report.Key
	Parked    bool            // of waiting
	Message   *stream.Message // of waiting; nil if a reprocess was cut short
	Letter    *dlq.Letter     // of dead
	Entry     *keyvalue.Entry // of done, or reopened
	Discarded *audit.Event    // of discarded
}

// Finder reads the rooms. It is safe for concurrent use.
type Finder struct {
	queues  *stream.Queues
	letters *dlq.Queue
	ledger  *keyvalue.Ledger
	trail   *audit.Trail
}

// New returns a Finder over the rooms.
func New(queues *stream.Queues, letters *dlq.Queue, ledger *keyvalue.Ledger, trail *audit.Trail) *Finder {
	return &Finder{queues, letters, ledger, trail}
}

// Of finds the fate of one report. The site may be "*" if only the key is known.
//
// The publishers' queue can only be searched by reading it, one request per stored report; a report
// that is done is found without that.
func (f *Finder) Of(ctx context.Context, site report.Token, key report.Key) (Answer, error) {
	if e, err := f.ledger.LookupLeader(ctx, site, key); err == nil && e.State == keyvalue.Done {
		return Answer{Fate: Done, Key: key, Entry: &e}, nil
	}
	a, err := f.look(ctx, site, key)
	if err == nil && a.Fate == Unknown {
		a, err = f.look(ctx, site, key)
	}
	return a, err
}

// look reads every place once, in the order of the flow.
func (f *Finder) look(ctx context.Context, site report.Token, key report.Key) (Answer, error) {
	a := Answer{Fate: Unknown, Key: key}
	queued, err := f.queued(ctx, site, key)
	if err != nil {
		return a, err
	}
	letter, err := f.letters.Current(ctx, site, key)
	if err == nil {
		a.Letter = &letter
	} else if !errors.Is(err, dlq.ErrNotFound) {
		return a, err
	}
	entry, err := f.ledger.LookupLeader(ctx, site, key)
	if err == nil {
		a.Entry = &entry
	} else if !errors.Is(err, keyvalue.ErrNotFound) {
		return a, err
	}
	switch {
	case a.Entry != nil && a.Entry.State == keyvalue.Done:
		a.Fate = Done
		return a, nil
	case queued != nil:
		a.Fate, a.Message, a.Parked = Waiting, queued, queued.Parked()
		return a, nil
	case a.Letter != nil:
		a.Fate = Dead
		return a, nil
	}
	discard, err := f.trail.Discarded(ctx, site, key)
	switch {
	case err == nil:
		a.Fate, a.Discarded = Discarded, &discard
	case !errors.Is(err, audit.ErrNotFound):
		return a, err
	case a.Entry != nil && a.Entry.State == keyvalue.Reopened: // and the requeueing was cut short
		a.Fate = Waiting
	}
	return a, nil
}

// queued finds the message that stands for a report, or nil.
func (f *Finder) queued(ctx context.Context, site report.Token, key report.Key) (*stream.Message, error) {
	for seq := uint64(1); ; {
		m, err := f.queues.Next(ctx, stream.Reports, seq)
		if errors.Is(err, jsapi.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		if m.Key == key {
			return &m, nil
		}
		seq = m.Ref.Sequence + 1
	}
	m, err := f.queues.Copy(ctx, site, key)
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &m, nil
}

// Counts is where all reports stand, at about one moment.
type Counts struct {
	Waiting  uint64                  `json:"waiting"`
	InWork   uint64                  `json:"in_work"` // or waiting for their retry
	Parked   uint64                  `json:"parked"`
	Stranded uint64                  `json:"stranded"` // the server will never deliver them again; the sweep will bury them
	Done     uint64                  `json:"done"`
	Dead     map[report.Class]uint64 `json:"dead"`
	Pulling  int                     `json:"pulling"`           // open pull requests of workers
	Oldest   time.Time               `json:"oldest,omitzero"`   // when the oldest report in the queues was put there
	NextDue  time.Time               `json:"next_due,omitzero"` // the earliest deadline among the dead
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
func (f *Finder) Count(ctx context.Context) (Counts, error) {
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
		if !s.Oldest.IsZero() && (c.Oldest.IsZero() || s.Oldest.Before(c.Oldest)) {
			c.Oldest = s.Oldest
		}
	}
	for l, err := range f.letters.List(ctx, dlq.Filter{}) {
		if err != nil {
			return c, err
		}
		c.Dead[l.Class]++
		if !l.Due.IsZero() && (c.NextDue.IsZero() || l.Due.Before(c.NextDue)) {
			c.NextDue = l.Due
		}
	}
	var err error
	c.Done, err = f.ledger.Len(ctx)
	return c, err
}
