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
	queues *stream.Queues
	ledger *keyvalue.Ledger
	trail  *audit.Trail
	step   func(string) // nil outside tests: called after each step
}

// New returns a desk over the rooms.
func New(queues *stream.Queues, ledger *keyvalue.Ledger, trail *audit.Trail) *Desk {
	return &Desk{queues: queues, ledger: ledger, trail: trail}
}

// By says who acts and why. Both are required.
type By struct{ Actor, Reason string }

// Reprocess has a settled report worked again. The steps:
//
//	read the entry through the leader          none, or a deletion's marker: [ErrNotSettled]
//	done: write the audit event, with the entry as it is stored
//	      turn it into reopened, by compare-and-set on its revision
//	put a copy, create-only, that carries the reopened entry's revision
//	                                           refused: a copy is queued, and will be worked on that revision
//
// After a crash at any point it can be called again and goes on: an entry that is reopened already is not recorded again. Due time and
// metadata of the original event are not kept in the ledger, so the copy has none; nor has it a SHA-256, which named the old file.
func (d *Desk) Reprocess(ctx context.Context, site report.Token, key report.Key, by By) error {
	if report.Clean(by.Reason) == "" || by.Actor == "" {
		return errors.New("reprocess: actor and reason are required")
	}
	entry, err := d.ledger.LookupLeader(ctx, site, key)
	switch {
	case errors.Is(err, keyvalue.ErrNotFound), err == nil && entry.State == "":
		return ErrNotSettled
	case err != nil:
		return err
	}
	revision := entry.Revision
	if entry.State == keyvalue.Done {
		if revision, err = d.reopen(ctx, entry, by); err != nil {
			return err
		}
	}
	d.did("reopened")
	event := report.Event{SiteID: entry.SiteID, SourceURI: entry.SourceURI}
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("reprocess %s: %w", key.Short(), err)
	}
	carried := stream.Carried{PublishedAt: time.Now().UTC(), Reopened: revision}
	err = d.queues.Requeue(ctx, report.NewToken(entry.SiteID), event.Key(), nil, body, carried, 0)
	if err != nil && !errors.Is(err, stream.ErrFenced) {
		return err
	}
	d.did("requeued")
	return nil
}

func (d *Desk) reopen(ctx context.Context, entry keyvalue.Entry, by By) (uint64, error) {
	by.Actor, by.Reason = report.Line(by.Actor, report.MaxHeaderValue), report.Clean(by.Reason)
	err := d.trail.Append(ctx, audit.Event{
		Time: time.Now().UTC(), Kind: audit.Reprocess, Key: entry.Key(), SiteID: entry.SiteID, Actor: by.Actor, Reason: by.Reason,
		Revision: entry.Revision, Settled: entry.Raw,
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

func (d *Desk) did(step string) {
	if d.step != nil {
		d.step(step)
	}
}
