package jsapi

import (
	"context"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"
)

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
	info, err := c.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
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
		raw := &jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Header: m.Headers(), Data: m.Data(), Time: meta.Timestamp}
		if !yield(raw, nil) || meta.NumPending == 0 || meta.Sequence.Stream == end {
			return nil
		}
	}
}
