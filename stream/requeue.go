package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// ErrFenced says that the requeue stream holds another copy of the report than the fence allows.
var ErrFenced = errors.New("another copy of the report is in the queue")

// Requeue puts a copy of a report into REPORTS_REQUEUE: body byte for byte, the publisher's own headers, and what
// it carries. own is the sequence that the newest copy of this report must have for the new one to be taken: 0
// means that there is none, requeued or parked. Otherwise nothing is stored and the error is [ErrFenced]. This fence holds
// beyond the duplicate window and over restarts, so a call whose outcome is unknown can be repeated.
func (q *Queues) Requeue(ctx context.Context, site report.Token, key report.Key, foreign nats.Header, body []byte, c Carried, own uint64) error {
	return q.putCopy(ctx, "reports.requeued.", site, key, foreign, body, c, own)
}

// Park is [Queues.Requeue] for later: the copy is a schedule, and until its time, which counts in whole seconds, it is delivered to
// nobody. Then the server puts it on its requeued subject, also if it was down at that time, and the parked copy is gone.
func (q *Queues) Park(ctx context.Context, site report.Token, key report.Key, foreign nats.Header, body []byte, c Carried, own uint64, until time.Time) error {
	return q.putCopy(ctx, "reports.parked.", site, key, foreign, body, c, own,
		jetstream.WithScheduleAt(until), jetstream.WithScheduleTarget("reports.requeued."+string(site)+"."+string(key)))
}

func (q *Queues) putCopy(ctx context.Context, prefix string, site report.Token, key report.Key, foreign nats.Header, body []byte, c Carried, own uint64,
	opts ...jetstream.PublishOpt,
) error {
	h := nats.Header{}
	kept, _ := report.Foreign(foreign)
	maps.Copy(h, kept)
	c.write(h)
	ctx, cancel := context.WithTimeout(ctx, jsapi.Timeout) // an answer that is lost never comes
	defer cancel()
	msg := &nats.Msg{Subject: prefix + string(site) + "." + string(key), Header: h, Data: body}
	opts = append(opts, jetstream.WithExpectLastSequenceForSubject(own, copies(site, key)), jetstream.WithExpectStream(Requeued))
	ack, err := q.js.PublishMsg(ctx, msg, opts...)
	switch {
	case Conflict(err):
		return fmt.Errorf("requeue %s: %w", key.Short(), ErrFenced)
	case err != nil:
		return fmt.Errorf("requeue %s: %w", key.Short(), err)
	case ack.Duplicate:
		return fmt.Errorf("requeue %s: the server took it for a duplicate and dropped it", key.Short())
	}
	return nil
}

// Copy reads, through the leader, the newest copy of a report in REPORTS_REQUEUE, requeued or parked, or returns
// [jsapi.ErrNotFound]. The site may be "*".
func (q *Queues) Copy(ctx context.Context, site report.Token, key report.Key) (Message, error) {
	raw, err := jsapi.Last(ctx, q.js, Requeued, copies(site, key))
	if err != nil {
		return Message{}, err
	}
	return ReadStored(Requeued, raw), nil
}

// copies matches requeued and parked copies of a report, so that they exclude each other.
func copies(site report.Token, key report.Key) string {
	return "reports.*." + string(site) + "." + string(key)
}

// Conflict reports whether a publish was refused by its expected last sequence. Replicated streams
// have a code of their own for it (server v2.15.3: 10164 beside 10071).
func Conflict(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
