package fate

import (
	"context"
	"errors"
	"fmt"
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
	Fate        Fate
	Key         report.Key
	Parked      bool            // of waiting
	Message     *stream.Message // of waiting; nil if a reprocess was cut short
	Letter      *dlq.Letter     // of dead; an older one may lie there while the report is waiting or done
	Quarantined bool            // of dead: see dlq.Queue.Quarantined
	Entry       *keyvalue.Entry // of done, or reopened
	Discarded   *audit.Event    // of discarded
	Forgets     time.Duration   // of discarded and unknown: after how long the ledger forgets a settled report; 0 = never
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
// The publishers' queue can only be searched by reading it; a report that is done is found without that.
func (f *Finder) Of(ctx context.Context, site report.Token, key report.Key) (Answer, error) {
	if e, err := f.ledger.LookupLeader(ctx, site, key); err == nil && e.State == keyvalue.Done {
		return Answer{Fate: Done, Key: key, Entry: &e}, nil
	}
	a, err := f.lookAll(ctx, site, key)
	if err == nil && a.Fate == Unknown {
		a, err = f.lookAll(ctx, site, key)
	}
	if err == nil && (a.Fate == Unknown || a.Fate == Discarded) {
		a.Forgets, err = f.ledger.Kept(ctx)
	}
	return a, err
}

// Days writes how long something is kept: "30 days".
func Days(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

// lookAll reads every place once, in the order of the flow.
func (f *Finder) lookAll(ctx context.Context, site report.Token, key report.Key) (Answer, error) {
	m, err := f.queues.Find(ctx, site, key)
	return f.look(ctx, site, key, m, err)
}

// look reads the places that come after the queues, in the order of the flow. queued and err are what reading those said.
func (f *Finder) look(ctx context.Context, site report.Token, key report.Key, queued stream.Message, err error) (Answer, error) {
	a := Answer{Fate: Unknown, Key: key}
	if err == nil {
		a.Message = &queued
	} else if !errors.Is(err, jsapi.ErrNotFound) {
		return a, err
	}
	letter, err := f.letters.Current(ctx, site, key)
	if err == nil {
		a.Letter, a.Quarantined = &letter, f.letters.Quarantined(letter)
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
		a.Fate, a.Message = Done, nil
		return a, nil
	case a.Message != nil:
		a.Fate, a.Parked = Waiting, a.Message.Parked()
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
