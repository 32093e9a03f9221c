package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

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
//	another copy of the dead report is queued   [Busy]
//	write the audit event                       it is the newest already: go on with its time
//	put the corrected report, create-only       it is queued, done, or dead of this very repair: go on
//	delete the letter by its sequence
//
// so that it can be repeated after a crash at any point, with the same URI: with another one, both corrected reports are in
// the trail, and may be in the queue. It returns the corrected report's key, or [ErrBeyondRepair].
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
		return "", "", fmt.Errorf("%w: %s is the URI that it has: `guyline dlq replay` works it again", ErrBeyondRepair, report.RedactSource(uri))
	}
	if _, err := q.queues.Copy(ctx, l.Site, l.Key); err == nil {
		return Busy, "", nil
	} else if !errors.Is(err, jsapi.ErrNotFound) {
		return "", "", err
	}
	at, err := q.recordRepair(ctx, l, event.Key(), body, by)
	if err != nil {
		return "", "", err
	}
	q.did("audit")
	if err := q.putRepaired(ctx, l.Foreign, event, body, at); err != nil {
		return "", "", err
	}
	q.did("requeue")
	return Repaired, event.Key(), q.delete(ctx, l)
}

// recordRepair writes the audit event, unless a repair that was cut short has. The event's time is when the corrected report is
// published, and so tells it from others of its key.
func (q *Queue) recordRepair(ctx context.Context, l Letter, corrected report.Key, body []byte, by By) (time.Time, error) {
	last, err := q.trail.LastChange(ctx, l.Site, l.Key)
	switch {
	case err == nil && last.Kind == audit.Repair && last.Letter == l.Sequence && last.NewKey == corrected:
		return last.Time, nil
	case ignore(err, audit.ErrNotFound) != nil:
		return time.Time{}, err
	}
	now := time.Now().UTC()
	return now, q.trail.Append(ctx, audit.Event{
		Time: now, Kind: audit.Repair, Key: l.Key, SiteID: l.SiteID(), Actor: report.Line(by.Actor, report.MaxHeaderValue),
		Reason: report.Clean(fmt.Sprintf("repaired as %s: %s", corrected, by.Reason)), Hash: l.Hash, Letter: l.Sequence,
		Payload: report.PayloadHash(l.Body), NewKey: corrected, NewPayload: report.PayloadHash(body),
	})
}

// putRepaired puts the corrected report unless that has been done, or the report is settled. It looks where the report may be in
// the order in which it flows.
func (q *Queue) putRepaired(ctx context.Context, foreign nats.Header, event report.Event, body []byte, at time.Time) error {
	site, key := report.NewToken(event.SiteID), event.Key()
	if _, err := q.queues.Copy(ctx, site, key); !errors.Is(err, jsapi.ErrNotFound) {
		return err
	}
	l, err := q.Current(ctx, site, key)
	if err == nil && l.PublishedAt.Equal(at) || ignore(err, ErrNotFound) != nil {
		return err
	}
	entry, err := q.ledger.LookupLeader(ctx, site, key)
	if ignore(err, keyvalue.ErrNotFound) != nil || entry.Settles(0) {
		return ignore(err, keyvalue.ErrNotFound)
	}
	err = q.queues.Requeue(ctx, site, key, foreign, body, stream.Carried{PublishedAt: at}, 0)
	return ignore(err, stream.ErrFenced)
}
