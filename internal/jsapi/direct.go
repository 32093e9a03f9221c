package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The reads below ask for many messages at once ($JS.API.DIRECT.GET, ADR-31). Any replica may answer them, so what they find
// may be used as [Get]'s answer of a moment ago, and what they do not find proves nothing.
const (
	manyMessages = 512     // of one request for bodies; the server blocks the stream's writers while it answers
	manySubjects = 500     // of one request for subjects; the server refuses more than 1,024 results
	manyBytes    = 4 << 20 // that one answer stops after
)

// ErrTooMany says that subjects with wildcards match more messages than the server gives at once.
var ErrTooMany = errors.New("the subjects match too many messages")

type manyRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes"`
	NoHeaders bool     `json:"no_hdr,omitempty"`
	LastFor   []string `json:"multi_last,omitempty"`
}

// Body is what a message says, and nothing else of it.
type Body struct {
	Data []byte
	From uint64 // its sequence is this or a little higher: it is among the next 512 messages
}

// Bodies yields the bodies of a stream in order, from its first message to the one that was its last when Bodies began. It is
// for work queues, which cannot be scanned (see [Scan]). A body may come twice, or belong to a message that is gone by now;
// one that is stored all the while is not missed, as the end is what the leader calls the end.
//
// Headers are not asked for, and that is what makes the answers safe to read. A direct answer puts the sequence beside
// the headers that the publisher wrote, and a publisher who writes header blocks by hand can forge it, or
// the status that ends a batch. Without headers only the server's own statuses have any.
func Bodies(ctx context.Context, js jetstream.JetStream, stream string) iter.Seq2[Body, error] {
	return func(yield func(Body, error) bool) {
		if err := bodies(ctx, js, stream, yield); err != nil {
			yield(Body{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

func bodies(ctx context.Context, js jetstream.JetStream, stream string, yield func(Body, error) bool) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	first, end := max(1, s.CachedInfo().State.FirstSeq), s.CachedInfo().State.LastSeq
	for first <= end {
		from, broken := first, false
		req := manyRequest{Seq: first, Batch: manyMessages, MaxBytes: manyBytes, NoHeaders: true}
		status, err := many(ctx, js, stream, req, func(m *nats.Msg) bool {
			if m.Header != nil {
				return false
			}
			broken = !yield(Body{m.Data, from}, nil)
			from++
			return !broken
		})
		switch {
		case err != nil:
			return err
		case broken:
			return nil
		}
		if last, ok := number(status, "Nats-Last-Sequence"); ok && last >= first && status.Get("Status") == "204" {
			first = last + 1
			continue
		}
		// The replica has no more, or does not answer. The leader says whether there is more.
		m, err := Next(ctx, js, stream, ">", first)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && m.Sequence > end:
			return nil
		case err != nil:
			return err
		}
		if !yield(Body{m.Data, m.Sequence}, nil) {
			return nil
		}
		first = m.Sequence + 1
	}
	return nil
}

// Lasts yields the newest message on each of the subjects, in no promised order. A message whose headers the client
// library cannot read is left out. With wildcards, [ErrTooMany] is possible.
//
// Sequence and subject are read from headers, which whoever publishes to the stream could forge: it is for
// streams to which only Guyline's own processes publish.
func Lasts(ctx context.Context, js jetstream.JetStream, stream string, subjects []string) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		for len(subjects) > 0 {
			n := min(len(subjects), manySubjects)
			if more, err := lasts(ctx, js, stream, subjects[:n], yield); err != nil {
				yield(nil, fmt.Errorf("read %s: %w", stream, err))
				return
			} else if !more {
				return
			}
			subjects = subjects[n:]
		}
	}
}

// lasts asks again from where an answer stopped for its size. It reports whether the loop's body wants more.
func lasts(ctx context.Context, js jetstream.JetStream, stream string, subjects []string, yield func(*jetstream.RawStreamMsg, error) bool) (bool, error) {
	for first := uint64(0); ; {
		broken := false
		status, err := many(ctx, js, stream, manyRequest{Seq: first, MaxBytes: manyBytes, LastFor: subjects}, func(m *nats.Msg) bool {
			seq, ok := number(m.Header, jetstream.SequenceHeader)
			if !ok {
				return m.Header == nil // unreadable: leave it out; else it is a status
			}
			stored, _ := time.Parse(time.RFC3339Nano, value(m.Header, jetstream.TimeStampHeaer))
			raw := &jetstream.RawStreamMsg{Subject: value(m.Header, jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data, Time: stored}
			broken = !yield(raw, nil)
			return !broken
		})
		switch code := status.Get("Status"); {
		case err != nil:
			return false, err
		case broken:
			return false, nil
		case code == "404":
			return true, nil
		case code == "413":
			return false, ErrTooMany
		case code == "204":
			left, _ := number(status, "Nats-Num-Pending")
			last, _ := number(status, "Nats-Last-Sequence")
			if left == 0 || last < first {
				return true, nil
			}
			first = last + 1
		case code == "":
			return false, fmt.Errorf("no answer within %v", Timeout)
		default:
			return false, fmt.Errorf("the server says %.200s", code+" "+status.Get("Description"))
		}
	}
}

// many sends a request and hands each part of the answer to take until that returns false, normally for the status that ends it, of which
// it returns the headers. They are empty if the server falls silent.
func many(ctx context.Context, js jetstream.JetStream, stream string, req manyRequest, take func(*nats.Msg) bool) (status nats.Header, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	nc := js.Conn()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(Prefix(js)+"DIRECT.GET."+stream, inbox, body); err != nil {
		return nil, err
	}
	for {
		m, err := part(ctx, sub)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return nil, nil
		case err != nil:
			return nil, err
		case !take(m):
			return m.Header, nil
		}
	}
}

// part waits for the next part of an answer, but not for longer than [Timeout].
func part(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	m, err := sub.NextMsgWithContext(ctx)
	if errors.Is(err, nats.ErrNoResponders) { // nobody reads this stream directly
		return &nats.Msg{Header: nats.Header{"Status": {"503"}, "Description": {"no replica gives direct reads of the stream"}}}, nil
	}
	return m, err
}

// value is the last one of a header: the server appends its own to the publisher's.
func value(h nats.Header, name string) string {
	if all := h[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func number(h nats.Header, name string) (uint64, bool) {
	n, err := strconv.ParseUint(value(h, name), 10, 64)
	return n, err == nil
}
