package stream

import (
	"context"
	"errors"
	"fmt"
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

const (
	// publishPatience bounds how long one report is offered again while the server does not answer.
	publishPatience = 15 * time.Second
	// publishAgain is how long one offer waits: its answer may be lost with a connection or a leader, and the next one tells.
	publishAgain = 5 * time.Second
)

// Receipt is what the queue said to one report.
type Receipt struct {
	Row       report.Row
	Settled   bool  // there was no need to publish it
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
			return false, published(e, err)
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func message(e report.Event, body []byte) *nats.Msg {
	return &nats.Msg{
		Subject: subject(report.NewToken(e.SiteID)),
		Header:  nats.Header{jetstream.MsgIDHeader: {string(e.Key())}},
		Data:    body,
	}
}

func subject(site report.Token) string { return "reports.submitted." + string(site) }

// published says which report an error is about.
func published(e report.Event, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("publish %s %s: %w", e.SiteID, report.RedactSource(e.SourceURI), refusal(err))
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
