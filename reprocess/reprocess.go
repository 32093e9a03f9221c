// Package reprocess holds the second look: a settled report is worked again because a person wants it, for instance when a
// corrected file was saved under the same URI.
//
// The ledger never deletes. [Desk.Reprocess] turns the report's `done` entry into a `reopened` one, which keeps the old result, and
// puts a copy of the report into the requeue stream that carries the entry's new revision in Guyline-Reopened. Whoever works
// a message with that header ignores older entries, and commits by compare-and-set on the revision that it has read: a slow
// worker that still has the old file cannot settle the report.
package reprocess

import (
	"context"
	"encoding/json"
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

var (
	// ErrNotSettled says that the ledger has no result of the report, so there is nothing to work again.
	ErrNotSettled = errors.New("the report is not settled")
	// ErrChanged says that somebody else has reopened or settled the report in the same moment.
	ErrChanged = errors.New("the report has been reopened or settled by somebody else meanwhile")
)

// Desk reopens settled reports. It is safe for concurrent use.
type Desk struct {
	queues  *stream.Queues
	ledger  *keyvalue.Ledger
	letters *dlq.Queue
	trail   *audit.Trail
	step    func(string) // nil outside tests: called after each step
}

// New returns a desk over the rooms.
func New(queues *stream.Queues, ledger *keyvalue.Ledger, letters *dlq.Queue, trail *audit.Trail) *Desk {
	return &Desk{queues: queues, ledger: ledger, letters: letters, trail: trail}
}

// By says who acts and why. Both are required.
type By struct{ Actor, Reason string }

// Reopened is a report that will be worked again.
type Reopened struct {
	SiteID    string
	SourceURI string
	Settled   time.Time     // when the old result was committed
	Was       uint64        // revision of the entry that was settled
	Revision  uint64        // of the reopened entry
	Before    string        // who had reopened it before, if somebody had: this call only made sure that it is queued
	Result    report.Result // that was settled
}

// Reprocess has a settled report worked again. The steps:
//
//	read the entry through the leader                     none, or a deletion's marker: [ErrNotSettled]
//	it is done: write the audit event, with the entry as it is stored
//	            turn it into reopened, by compare-and-set on its revision
//	it is reopened already: the earlier call was cut short; or the report has died or was given up since: [ErrNotSettled]
//	put a copy, create-only, that carries the reopened entry's revision
//	                                                      refused: a copy is queued, and will be worked on that revision, unless a worker
//	                                                      is just letting it go as a duplicate: then once more
//
// After a crash at any point it can be called again and goes on. Due time and metadata of the original event are not kept in the
// ledger, so the copy has none; nor has it a SHA-256, which named the old file.
func (d *Desk) Reprocess(ctx context.Context, site report.Token, key report.Key, by By) (Reopened, error) {
	by.Actor, by.Reason = report.Line(by.Actor, report.MaxHeaderValue), report.Clean(by.Reason)
	if by.Actor == "" || by.Reason == "" {
		return Reopened{}, errors.New("actor and reason are required")
	}
	entry, err := d.ledger.LookupLeader(ctx, site, key)
	if errors.Is(err, keyvalue.ErrNotFound) {
		return Reopened{}, ErrNotSettled
	}
	if err != nil {
		return Reopened{}, err
	}
	out := Reopened{
		SiteID: entry.SiteID, SourceURI: entry.SourceURI, Settled: entry.Time, Was: entry.Replaces, Revision: entry.Revision, Result: entry.Result,
	}
	body, err := json.Marshal(report.Event{SiteID: entry.SiteID, SourceURI: entry.SourceURI})
	if err != nil {
		return Reopened{}, err
	}
	switch entry.State {
	case keyvalue.Done:
		out.Was = entry.Revision
		out.Revision, err = d.reopen(ctx, entry, body, by)
	case keyvalue.Reopened:
		out.Before = entry.Actor
		err = d.stillOpen(ctx, entry)
	default:
		err = ErrNotSettled
	}
	if err != nil {
		return Reopened{}, err
	}
	d.did("reopened")
	if err := d.requeue(ctx, report.Ref{Site: report.NewToken(entry.SiteID), Key: entry.Key()}, body, out.Revision); err != nil {
		return Reopened{}, err
	}
	d.did("requeued")
	return out, nil
}

// patience is how long a copy is watched that a worker may be acknowledging.
const patience = 3 * time.Second

// requeue puts the copy, or finds that another one is queued that will be worked on the reopened entry. A worker that read the ledger before
// it was reopened takes that other one for a duplicate and lets it go; so if it was ever delivered, it is watched for a moment, and once it
// has left without settling the report there is room.
func (d *Desk) requeue(ctx context.Context, ref report.Ref, body []byte, revision uint64) error {
	carried := stream.Carried{PublishedAt: time.Now().UTC(), Reopened: revision}
	for end := time.Now().Add(patience); ; {
		err := d.queues.Requeue(ctx, ref.Site, ref.Key, nil, body, carried, 0)
		if !errors.Is(err, stream.ErrFenced) {
			return err
		}
		d.did("fenced")
		switch held, err := d.held(ctx, ref, revision); {
		case err != nil:
			return err
		case !held || time.Now().After(end):
			return nil
		}
		entry, err := d.ledger.LookupLeader(ctx, ref.Site, ref.Key)
		if err != nil || entry.Revision != revision {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// held reports whether a copy that another act has put is with a worker, or has left.
func (d *Desk) held(ctx context.Context, ref report.Ref, revision uint64) (bool, error) {
	m, err := d.queues.Copy(ctx, ref.Site, ref.Key)
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case m.Parked(), m.Carried.Reopened == revision:
		return false, nil
	}
	state, err := d.queues.State(ctx, stream.Requeued)
	return m.Ref.Sequence <= state.Delivered, err
}

func (d *Desk) reopen(ctx context.Context, entry keyvalue.Entry, body []byte, by By) (uint64, error) {
	err := d.trail.Append(ctx, audit.Event{
		Time: time.Now().UTC(), Kind: audit.Reprocess, Key: entry.Key(), SiteID: entry.SiteID, Actor: by.Actor, Reason: by.Reason,
		Revision: entry.Revision, Settled: entry.Raw, Payload: report.PayloadHash(body),
	})
	if err != nil {
		return 0, err
	}
	d.did("audit")
	revision, err := d.ledger.Reopen(ctx, entry, by.Actor, by.Reason)
	if errors.Is(err, keyvalue.ErrConflict) {
		return 0, ErrChanged
	}
	return revision, err
}

// stillOpen makes sure that a report which was reopened before has not left the queue in another way since.
func (d *Desk) stillOpen(ctx context.Context, entry keyvalue.Entry) error {
	site, key := report.NewToken(entry.SiteID), entry.Key()
	switch l, err := d.letters.Current(ctx, site, key); {
	case err == nil && l.Reopened == entry.Revision:
		return fmt.Errorf("%w: it was reopened before and is in the dead-letter queue: `guyline dlq replay` sends it back", ErrNotSettled)
	case err != nil && !errors.Is(err, dlq.ErrNotFound):
		return err
	}
	switch _, err := d.trail.Discarded(ctx, site, key); {
	case err == nil:
		return fmt.Errorf("%w: it was reopened before and given up since: `guyline publish` hands it over again", ErrNotSettled)
	case err != nil && !errors.Is(err, audit.ErrNotFound):
		return err
	}
	return nil
}

func (d *Desk) did(step string) {
	if d.step != nil {
		d.step(step)
	}
}
