package jsapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// idle is how long a scan waits for a message before it asks the leader for it.
const idle = time.Second

// Scan yields what a stream holds on a subject, which may have wildcards, in order, from its first message to the one
// that was its last when the scan began: a scan never chases what is written meanwhile. With headersOnly the
// bodies stay on the server. A missing stream is [jetstream.ErrStreamNotFound].
//
// Any replica may answer, so a message that is gone may come all the same. Of a subject that keeps only its newest one, an older one may
// come before it.
//
// A work queue cannot be scanned: it has a consumer already.
func Scan(ctx context.Context, js jetstream.JetStream, stream, subject string, headersOnly bool) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return ScanFrom(ctx, js, stream, subject, 1, headersOnly)
}

// ScanFrom is [Scan] from a sequence on.
func ScanFrom(ctx context.Context, js jetstream.JetStream, stream, subject string, first uint64, headersOnly bool) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		if err := scan(ctx, js, stream, subject, first, headersOnly, yield); err != nil {
			yield(nil, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

func scan(ctx context.Context, js jetstream.JetStream, stream, subject string, first uint64, headersOnly bool, yield func(*jetstream.RawStreamMsg, error) bool) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	end := s.CachedInfo().State.LastSeq
	for first <= end {
		cfg := jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{subject}, HeadersOnly: headersOnly, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first,
			MaxResetAttempts: 1, // else the client library tries for ever, and does not look at the context (nats.go v1.55.0)
		}
		last, done, err := consume(ctx, js, s, cfg, end, yield)
		if done || err != nil {
			return err
		}
		// No more messages come. What was left may be on other subjects, or have been deleted meanwhile; or the replica that holds the consumer
		// has not got it yet, as any of them may hold it, also one that was away and catches up (server v2.15.3); or the client library
		// takes the next one for a status of its own and swallows it: that is what an empty body with a Status header does (nats.go v1.55.0).
		m, err := Next(ctx, js, stream, subject, last+1)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && m.Sequence > end:
			return nil
		case err != nil:
			return err
		}
		if headersOnly {
			m.Data = nil
		}
		if !yield(m, nil) {
			return nil
		}
		first = m.Sequence + 1
	}
	return nil
}

// consume yields messages as fast as the server sends them. It is done when it has yielded the one at the end, or
// the loop's body breaks; otherwise it stops when there are no more or none comes, and last is the sequence of the last one so far.
func consume(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, cfg jetstream.OrderedConsumerConfig, end uint64,
	yield func(*jetstream.RawStreamMsg, error) bool,
) (last uint64, done bool, err error) {
	c, err := s.OrderedConsumer(ctx, cfg)
	if err != nil {
		return 0, false, err
	}
	defer func() { // else the server keeps it for minutes; nothing depends on the answer
		_ = js.Conn().Publish(Prefix(js)+"CONSUMER.DELETE."+s.CachedInfo().Config.Name+"."+c.CachedInfo().Name, nil)
	}()
	ask, cancel := context.WithTimeout(ctx, Timeout) // the client library sets none here (nats.go v1.55.0)
	info, err := c.Info(ask)
	cancel()
	if last = cfg.OptStartSeq - 1; err != nil || info.NumPending == 0 {
		return last, false, err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return 0, false, err
	}
	defer it.Stop()
	for {
		m, err := next(ctx, it)
		if err != nil { // also of beginning anew when the connection was lost: whether that is worth another try the leader tells
			return last, false, ctx.Err()
		}
		meta, err := m.Metadata()
		if err != nil {
			return last, false, err
		}
		if last = meta.Sequence.Stream; last > end {
			return last, true, nil
		}
		raw := &jetstream.RawStreamMsg{Subject: m.Subject(), Sequence: last, Header: m.Headers(), Data: m.Data(), Time: meta.Timestamp}
		if !yield(raw, nil) || last == end {
			return last, true, nil
		}
		if meta.NumPending == 0 {
			return last, false, nil
		}
	}
}

// next waits for a message, but not for longer than idle.
func next(ctx context.Context, it jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	return it.Next(jetstream.NextContext(ctx))
}
