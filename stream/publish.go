package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
)

// Why the queue refused a report.
var (
	ErrQueueFull = errors.New("the queue is full; nothing old is dropped: let the workers catch up, then publish again")
	ErrTooLarge  = fmt.Errorf("headers and body are over %d KiB", report.MaxMessage>>10)
	ErrNoQueue   = errors.New("no stream takes reports.submitted.*; " + ErrNotSetUp.Error())
)

// publishWindow bounds the reports of a list that are on their way at once.
const publishWindow = 512

const (
	// publishPatience bounds how long one report is offered again while the server does not answer.
	publishPatience = 15 * time.Second
	// publishAgain is how long one offer waits: its answer may be lost with a connection or a leader, and the next one tells.
	publishAgain = 5 * time.Second
)

// Receipt is what the queue said to one report.
type Receipt struct {
	Row       report.Row
	Duplicate bool  // the queue has, or had within its window, this very report
	Err       error // refused: ErrQueueFull, ErrTooLarge, ErrNoQueue, or no answer
}

// Publish hands one report over and waits for the server's word. body is the event's JSON. The report's key is
// its Nats-Msg-Id, so calling it again after an error cannot store the report twice inside the duplicate window.
// It returns [ErrQueueFull], [ErrTooLarge] or [ErrNoQueue], or that the server did not answer for 15 s.
func Publish(ctx context.Context, js jetstream.JetStream, e report.Event, body []byte) (duplicate bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishPatience)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, publishAgain)
		ack, err := js.PublishMsg(try, message(e, body), jetstream.WithExpectStream(Reports))
		cancel()
		switch {
		case err == nil:
			return ack.Duplicate, nil
		case ctx.Err() != nil || !unknown(err):
			return false, fmt.Errorf("publish %s %s: %w", e.SiteID, report.RedactURI(e.SourceURI), refusal(err))
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// PublishAll hands many reports over, a bounded number on their way at once, and yields a receipt for each in the order of
// rows. A row with an error gets it as its receipt and is not sent. The loop's body may break; what is on its
// way then is not waited for.
func PublishAll(ctx context.Context, js jetstream.JetStream, rows iter.Seq[report.Row]) iter.Seq[Receipt] {
	type sent struct {
		row report.Row
		at  time.Time
		ack jetstream.PubAckFuture
		err error
	}
	return func(yield func(Receipt) bool) {
		onTheWay := make([]sent, 0, publishWindow)
		settle := func() bool {
			s := onTheWay[0]
			onTheWay = append(onTheWay[:0], onTheWay[1:]...)
			r := Receipt{Row: s.row, Err: s.err}
			if s.ack != nil {
				r.Duplicate, r.Err = receive(ctx, js, s.row, s.at, s.ack)
			}
			return yield(r)
		}
		for row := range rows {
			s := sent{row: row, at: time.Now(), err: row.Err}
			if s.err == nil {
				// A failure to send is treated like a failed ack: by publishing once more, waiting.
				if s.ack, s.err = js.PublishMsgAsync(message(row.Event, row.Body), jetstream.WithExpectStream(Reports)); s.err != nil {
					_, s.err = Publish(ctx, js, row.Event, row.Body)
				}
			}
			if onTheWay = append(onTheWay, s); len(onTheWay) == publishWindow && !settle() {
				return
			}
		}
		for len(onTheWay) > 0 {
			if !settle() {
				return
			}
		}
	}
}

func receive(ctx context.Context, js jetstream.JetStream, row report.Row, at time.Time, f jetstream.PubAckFuture) (bool, error) {
	patience := time.NewTimer(publishPatience - time.Since(at)) // all that were lost together are given up together
	defer patience.Stop()
	select {
	case ack := <-f.Ok():
		return ack.Duplicate, nil
	case err := <-f.Err():
		if !unknown(err) {
			return false, fmt.Errorf("publish %s %s: %w", row.Event.SiteID, report.RedactURI(row.Event.SourceURI), refusal(err))
		}
	case <-patience.C:
		select {
		case ack := <-f.Ok(): // it came while earlier ones were waited for
			return ack.Duplicate, nil
		default:
		}
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return Publish(ctx, js, row.Event, row.Body)
}

func message(e report.Event, body []byte) *nats.Msg {
	return &nats.Msg{
		Subject: "reports.submitted." + string(report.NewToken(e.SiteID)),
		Header:  nats.Header{jetstream.MsgIDHeader: {string(e.Key())}},
		Data:    body,
	}
}

// unknown reports whether a publish may or may not have arrived, or should be tried again.
func unknown(err error) bool {
	if _, ok := errors.AsType[*jetstream.APIError](err); ok || errors.Is(err, nats.ErrMaxPayload) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		return false
	}
	return true
}

// refusal turns the server's answer into one that says what to do. Codes of server v2.15.3: 10077 maximum
// bytes exceeded, 10054 message too large.
func refusal(err error) error {
	e, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case ok && e.ErrorCode == 10077:
		return ErrQueueFull
	case ok && e.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum, errors.Is(err, nats.ErrMaxPayload):
		return ErrTooLarge
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return ErrNoQueue
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("the server did not answer within %v: publish again, a repeat is recognised: %w", publishPatience, err)
	}
	return err
}
