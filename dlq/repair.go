package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// ErrBeyondRepair says that a letter's payload is not an event that could be corrected, or that the correction is none.
var ErrBeyondRepair = errors.New("cannot be repaired")

// Repair puts a corrected report into the queue in place of the dead one of a letter, given by sequence: the same payload with
// another source_uri. A new URI is a new key, so the old report is given up, with the new key in the reason, and the
// trail keeps both payloads' hashes. It begins like [Queue.Replay], and its order is
//
//	write the audit event
//	put the corrected report, create-only       it is queued or done already: go on
//	delete the letter by its sequence
//
// so that it can be repeated after a crash at any point. It returns the corrected report's key.
func (q *Queue) Repair(ctx context.Context, seq uint64, uri string, by By) (Outcome, report.Key, error) {
	if report.Clean(by.Reason) == "" {
		return "", "", errors.New("repair: a reason is required")
	}
	l, outcome, err := q.open(ctx, seq, by)
	if outcome != "" || err != nil {
		return outcome, "", err
	}
	event, body, err := report.Moved(l.Body, uri)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%w: %w", ErrBeyondRepair, err)
	case event.Key() == l.Key:
		return "", "", fmt.Errorf("%w: %s is the URI that it has: `guyline dlq replay` works it again", ErrBeyondRepair, report.RedactURI(uri))
	}
	if _, err := q.queues.Copy(ctx, l.Site, l.Key); err == nil {
		return Busy, "", nil
	} else if !errors.Is(err, jsapi.ErrNotFound) {
		return "", "", err
	}
	err = q.trail.Append(ctx, audit.Event{
		Time: time.Now().UTC(), Kind: audit.Repair, Key: l.Key, SiteID: l.SiteID(), Actor: report.Line(by.Actor, report.MaxHeaderValue),
		Reason: report.Clean(fmt.Sprintf("repaired as %s: %s", event.Key(), by.Reason)), Hash: l.Hash, Letter: l.Sequence,
		Payload: report.PayloadHash(l.Body), NewKey: event.Key(), NewPayload: report.PayloadHash(body),
	})
	if err != nil {
		return "", "", err
	}
	q.did("audit")
	if err := q.putRepaired(ctx, l, event, body); err != nil {
		return "", "", err
	}
	q.did("requeue")
	return Repaired, event.Key(), q.delete(ctx, l)
}

// putRepaired puts the corrected report unless it is in the queue or settled.
func (q *Queue) putRepaired(ctx context.Context, l Letter, event report.Event, body []byte) error {
	entry, err := q.ledger.LookupLeader(ctx, l.Site, event.Key())
	if ignore(err, keyvalue.ErrNotFound) != nil {
		return err
	}
	if entry.Settles(0) {
		return nil
	}
	err = q.queues.Requeue(ctx, l.Site, event.Key(), l.Foreign, body, stream.Carried{PublishedAt: time.Now().UTC()}, 0)
	return ignore(err, stream.ErrFenced)
}
