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

// Outcome is what became of a letter on which somebody acted.
type Outcome string

const (
	Replayed  Outcome = "replayed"  // the report is in the queue again, the letter is gone
	Discarded Outcome = "discarded" // the report is given up, the letter is gone
	Recovered Outcome = "recovered" // the report had landed by another way; only the letter was closed
	Gone      Outcome = "gone"      // the letter had left or been replaced before the act
	Busy      Outcome = "busy"      // another copy of the report is in the queue; the letter stays

	Repaired    Outcome = "repaired"    // a corrected report is in the queue under a new key, the letter is gone
	Quarantined Outcome = "quarantined" // replayed too often; the letter stays, see [By.Force]

	// Unreadable is told of many letters only, where one must not stop the others: ledger or trail hold something about the report
	// that Guyline has not written, or the letter is such a thing. The letter stays.
	Unreadable Outcome = "unreadable"
)

// By says who acts and why.
type By struct {
	Actor  string // OS user and host, or as the person said
	Reason string
	Force  bool // replay a quarantined letter too
}

// Replay sends the report of one letter, given by sequence, back to the queue. The steps:
//
//	read the letter through the leader              gone or replaced: [Gone]
//	finish its burial if that was cut short
//	the ledger says done: close the letter          [Recovered]
//	replayed too often already, and no force        [Quarantined]
//	another copy of the report is queued            [Busy]
//	write the audit event
//	put a copy of the report, create-only           refused by the copy of this very replay: go on;
//	                                                by another copy: [Busy]
//	delete the letter by its sequence
//
// A crash after any of them leaves the letter or the copy, or both, and calling Replay again goes on from there. It can be called
// by several operators at once, and there is never more than one copy in the requeue stream. If the copy of one is worked
// within the moment in which another has read the letter and not yet put his, the report is worked once more; it is
// recorded once all the same.
func (q *Queue) Replay(ctx context.Context, seq uint64, by By) (Outcome, error) {
	l, outcome, err := q.open(ctx, seq, by)
	if outcome != "" || err != nil {
		return outcome, err
	}
	if q.Quarantined(l) && !by.Force {
		return Quarantined, nil
	}
	// Looked at before it is recorded, or the trail would name a person for what another does later.
	if c, err := q.queues.Copy(ctx, l.Site, l.Key); err == nil && c.Carried.ReplayOf != l.Sequence {
		return Busy, nil
	} else if ignore(err, jsapi.ErrNotFound) != nil {
		return "", err
	}
	if err := q.record(ctx, audit.Replay, l, by); err != nil {
		return "", err
	}
	q.did("audit")
	outcome, err = q.requeue(ctx, l)
	if err != nil || outcome != Replayed {
		return outcome, err
	}
	q.did("requeue")
	return Replayed, q.delete(ctx, l)
}

// requeue puts the copy, or finds that it had been put: [Replayed]. [Busy] if another copy is in the way, [Gone] if the
// letter has left meanwhile.
func (q *Queue) requeue(ctx context.Context, l Letter) (Outcome, error) {
	carried := stream.Carried{
		PublishedAt: l.PublishedAt, FirstFailedAt: l.FirstFailedAt, Replays: l.Replays + 1, ReplayOf: l.Sequence, Reopened: l.Reopened,
	}
	for {
		// The letter may have been discarded by somebody else, or replayed, and its report have died again.
		switch _, err := q.At(ctx, l.Sequence); {
		case errors.Is(err, ErrNotFound):
			return Gone, nil
		case err != nil:
			return "", err
		}
		err := q.queues.Requeue(ctx, l.Site, l.Key, l.Foreign, l.Body, carried, 0)
		switch {
		case err == nil:
			return Replayed, nil
		case !errors.Is(err, stream.ErrFenced):
			return "", err
		}
		switch found, err := q.queues.Copy(ctx, l.Site, l.Key); {
		case errors.Is(err, jsapi.ErrNotFound): // it has been worked since
			if done, err := q.landed(ctx, l); done || err != nil {
				return Replayed, err
			}
		case err != nil:
			return "", err
		case found.Carried.ReplayOf == l.Sequence:
			return Replayed, nil
		default:
			return Busy, nil
		}
	}
}

// Discard gives up the report of one letter, given by sequence, for a reason. It begins like [Queue.Replay]. A report of which a
// copy is in the requeue stream will be worked whatever becomes of the letter, so it cannot be given up: [Busy]. One that a
// publisher has handed over again is not looked for: it is worked like any other, and done or dead then. So is the copy of a replay
// that another operator, or a worker, begins between this look and the end of the letter: its report is *waiting* then, whatever was told.
func (q *Queue) Discard(ctx context.Context, seq uint64, by By) (Outcome, error) {
	if report.Clean(by.Reason) == "" {
		return "", errors.New("discard: a reason is required")
	}
	l, outcome, err := q.open(ctx, seq, by)
	if outcome != "" || err != nil {
		return outcome, err
	}
	if _, err := q.queues.Copy(ctx, l.Site, l.Key); err == nil {
		return Busy, nil
	} else if !errors.Is(err, jsapi.ErrNotFound) {
		return "", err
	}
	if err := q.record(ctx, audit.Discard, l, by); err != nil {
		return "", err
	}
	q.did("audit")
	return Discarded, q.delete(ctx, l)
}

// open begins every act: it reads the letter, finishes its burial, and closes it if the report has landed.
func (q *Queue) open(ctx context.Context, seq uint64, by By) (Letter, Outcome, error) {
	l, err := q.At(ctx, seq)
	switch {
	case errors.Is(err, ErrNotFound):
		return l, Gone, nil
	case err != nil:
		return l, "", err
	}
	if err := q.finishBurial(ctx, l); err != nil {
		return l, "", err
	}
	q.did("burial")
	landed, err := q.Close(ctx, l, by)
	if landed {
		return l, Recovered, err
	}
	return l, "", err
}

// Close removes the letter if its report has landed by another way, and records it as recovered. It asks the leader.
func (q *Queue) Close(ctx context.Context, l Letter, by By) (landed bool, err error) {
	if landed, err := q.landed(ctx, l); !landed || err != nil {
		return false, err
	}
	if err := q.record(ctx, audit.Recovered, l, by); err != nil {
		return true, err
	}
	return true, q.delete(ctx, l)
}

func (q *Queue) landed(ctx context.Context, l Letter) (bool, error) {
	e, err := q.ledger.LookupLeader(ctx, l.Site, l.Key)
	if errors.Is(err, keyvalue.ErrNotFound) {
		return false, nil
	}
	return err == nil && e.Settles(l.Reopened), err
}

// finishBurial does what a worker would have done next, had it not died between putting the letter and letting the
// message go: it records the death and removes the message, so that the report is not worked while its letter is acted on.
func (q *Queue) finishBurial(ctx context.Context, l Letter) error {
	if err := q.RecordDeath(ctx, l); err != nil {
		return err
	}
	left, err := q.unburied(ctx, l)
	for _, m := range left {
		err = errors.Join(err, q.queues.Delete(ctx, m.Ref))
	}
	if err != nil {
		return fmt.Errorf("finish the burial of %s: %w", l.Key.Short(), err)
	}
	return nil
}

// unburied finds the messages that the letter is about and that are still stored: the very one, or the copy as
// which it was handed back. There is none once the burial is finished.
func (q *Queue) unburied(ctx context.Context, l Letter) (left []stream.Message, err error) {
	if l.Source.Stream != stream.Reports && l.Source.Stream != stream.Requeued {
		return nil, nil // not a letter of ours; Verify says so
	}
	for _, read := range []func() (stream.Message, error){
		func() (stream.Message, error) { return q.queues.Stored(ctx, l.Source) },
		func() (stream.Message, error) { return q.queues.Copy(ctx, l.Site, l.Key) },
	} {
		m, err := read()
		switch {
		case errors.Is(err, jsapi.ErrNotFound):
		case err != nil:
			return nil, err
		case l.Stands(m):
			left = append(left, m)
		}
	}
	return left, nil
}

// RecordDeath appends the letter's death to the audit trail, and that it is quarantined if it is, and waits; unless the report's
// newest event, failed attempts apart, is that death or an act on this letter. What is not sound is [ErrForged] and does not get into the
// trail, which keeps it for good.
func (q *Queue) RecordDeath(ctx context.Context, l Letter) error {
	if recorded, err := q.recordDeath(ctx, l); recorded || err != nil {
		return err
	}
	if !q.Quarantined(l) {
		return nil
	}
	return q.record(ctx, audit.Quarantine, l, By{Actor: l.Worker, Reason: fmt.Sprintf("replayed %d times", l.Replays)})
}

// recordDeath reports whether everything about the death has been recorded before.
func (q *Queue) recordDeath(ctx context.Context, l Letter) (before bool, err error) {
	if problem := l.unsound(); problem != "" {
		return false, fmt.Errorf("dead-letter queue: letter %d of %s: %s: %w", l.Sequence, l.Key.Short(), problem, ErrForged)
	}
	e := Death(l)
	last, err := q.trail.LastChange(ctx, l.Site, l.Key)
	// Sequences start anew when a stream is made anew; the time of publication does not come back.
	same := last.Kind == audit.Death && last.Stream == e.Stream && last.Sequence == e.Sequence && last.Published.Equal(e.Published) &&
		(last.Replays == e.Replays || last.Replays == 0)
	switch {
	case errors.Is(err, audit.ErrNotFound):
	case err != nil:
		return false, err
	case same && last.Hash == e.Hash:
		return false, nil
	case last.Kind != audit.Death && last.Letter == l.Sequence && l.Sequence != 0:
		// Letters' sequences start anew too. Whoever closes a letter as recovered may find its death not recorded, any other act does not.
		if last.Kind == audit.Recovered {
			return true, nil
		}
		if died, err := q.trail.Died(ctx, l.Site, l.Key, e.Stream, e.Sequence, e.Published, 0); died || err != nil {
			return died, err
		}
	case same && last.Class == report.ClassAbandoned:
		e.Corrects = true
	case same:
		return false, fmt.Errorf("dead-letter queue: letter %d of %s: %s: %w", l.Sequence, l.Key.Short(), anotherReason, ErrForged)
	default: // about another message or letter of the report
		if before, err := q.overtaken(ctx, l, e); before || err != nil {
			return before, err
		}
	}
	return false, q.trail.Append(ctx, e)
}

// overtaken reports whether the letter has left with its death on record, as whoever takes one away records that first: a worker that is late by
// more than the trail's duplicate window must not let a report that was given up since look dead again.
func (q *Queue) overtaken(ctx context.Context, l Letter, death audit.Event) (bool, error) {
	if now, err := q.At(ctx, l.Sequence); !errors.Is(err, ErrNotFound) && (err != nil || now.Key == l.Key) {
		return false, err
	}
	return q.trail.Died(ctx, l.Site, l.Key, death.Stream, death.Sequence, death.Published, 0)
}

// Death is the audit event of a letter.
func Death(l Letter) audit.Event {
	e := audit.Event{
		Time: l.FailedAt, Kind: audit.Death, Key: l.Key, SiteID: l.SiteID(), Worker: l.Worker, Attempt: l.Attempts,
		Class: l.Class, Code: l.Code, Reason: l.Reason, Hash: l.Hash, Stream: l.Source.Stream, Sequence: l.Source.Sequence,
		Published: l.PublishedAt, Payload: report.PayloadHash(l.Body),
	}
	if e.Stream == stream.Requeued {
		e.Replays = l.Replays
	}
	return e
}

func (q *Queue) record(ctx context.Context, kind audit.Kind, l Letter, by By) error {
	return q.trail.Append(ctx, audit.Event{
		Time: time.Now().UTC(), Kind: kind, Key: l.Key, SiteID: l.SiteID(), Actor: report.Line(by.Actor, report.MaxHeaderValue),
		Reason: report.Clean(by.Reason), Hash: l.Hash, Letter: l.Sequence, Payload: report.PayloadHash(l.Body),
	})
}

func (q *Queue) delete(ctx context.Context, l Letter) error {
	if err := ignore(jsapi.Delete(ctx, q.js, Stream, l.Sequence), jsapi.ErrNotFound); err != nil {
		return fmt.Errorf("dead-letter queue: delete %s: %w", l.Key.Short(), err)
	}
	return nil
}

// ignore is nil for an error that is target.
func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

func (q *Queue) did(step string) {
	if q.step != nil {
		q.step(step)
	}
}
