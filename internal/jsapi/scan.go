package jsapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// idle is how long a scan waits for a message before it asks whether there is one.
const idle = time.Second

// Scan yields what a stream holds on a subject, which may have wildcards, in order, from its first message to the one
// that was its last when the scan began: a scan never chases what is written meanwhile. With headersOnly the
// bodies stay on the server. A missing stream is [jetstream.ErrStreamNotFound].
//
// It must not be used on streams to which strangers write: the client library swallows a message
// with an empty body and a Status header, and the scan would miss it.
func Scan(ctx context.Context, js jetstream.JetStream, stream, subject string, headersOnly bool) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		if err := scan(ctx, js, stream, subject, headersOnly, yield); err != nil {
			yield(nil, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

func scan(ctx context.Context, js jetstream.JetStream, stream, subject string, headersOnly bool, yield func(*jetstream.RawStreamMsg, error) bool) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	end := s.CachedInfo().State.LastSeq
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, HeadersOnly: headersOnly})
	if err != nil {
		return err
	}
	defer func() { // else the server keeps it for minutes; nothing depends on the answer
		_ = js.Conn().Publish(prefix(js)+"CONSUMER.DELETE."+stream+"."+c.CachedInfo().Name, nil)
	}()
	info, err := c.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return err
	}
	defer it.Stop()
	last := uint64(0)
	for {
		m, err := next(ctx, it)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			// What was left when the last message was sent may have been deleted since.
			switch left, err := Next(ctx, js, stream, subject, last+1); {
			case errors.Is(err, ErrNotFound), err == nil && left.Sequence > end:
				return nil
			case err != nil:
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream > end {
			return nil
		}
		last = meta.Sequence.Stream
		raw := &jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Header: m.Headers(), Data: m.Data(), Time: meta.Timestamp}
		if !yield(raw, nil) || meta.NumPending == 0 || meta.Sequence.Stream == end {
			return nil
		}
	}
}

// next waits for a message, but not for longer than idle.
func next(ctx context.Context, it jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	return it.Next(jetstream.NextContext(ctx))
}
