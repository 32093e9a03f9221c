package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The reads below ask for many messages at once ($JS.API.DIRECT.GET, ADR-31). Any replica may answer them, so what they find
// may be used as [Get]'s answer of a moment ago, and what they do not find proves nothing.
const (
	manyMessages = 512     // of one request for bodies; the server blocks the stream's writers while it answers
	manySubjects = 500     // of one request for subjects
	manyResults  = 1024    // that the server gives to one request for subjects, at most
	manyBytes    = 4 << 20 // that one answer stops after
)

// noResults is the server's word that no subject has a message. It has the same code, 404, for one that it cannot read (v2.15.3).
const noResults = "No Results"

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
		case code == "404" && status.Get("Description") == noResults:
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
	in, err := listen(js.Conn())
	if err != nil {
		return nil, err
	}
	defer in.close()
	if err := js.Conn().PublishRequest(Prefix(js)+"DIRECT.GET."+stream, in.sub.Subject, body); err != nil {
		return nil, err
	}
	for {
		m, err := in.part(ctx)
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

// parts is where the parts of one answer arrive.
type parts struct {
	sub    *nats.Subscription
	in     chan *nats.Msg
	closed chan struct{} // with the connection
}

// listen has room for one answer and the status behind it. A subscription of the client library's own kind has room for 65,536 messages,
// half a megabyte that is made and thrown away (nats.go v1.55.0).
func listen(nc *nats.Conn) (*parts, error) {
	p := &parts{in: make(chan *nats.Msg, manyResults+1), closed: make(chan struct{})}
	var err error
	if p.sub, err = nc.ChanSubscribe(nc.NewInbox(), p.in); err != nil {
		return nil, err
	}
	closed := sync.OnceFunc(func() { close(p.closed) })
	p.sub.SetClosedHandler(func(string) { closed() })
	return p, nil
}

func (p *parts) close() { _ = p.sub.Unsubscribe() }

// part waits for the next part of an answer, but not for longer than [Timeout].
func (p *parts) part(ctx context.Context) (*nats.Msg, error) {
	patience := time.NewTimer(Timeout)
	defer patience.Stop()
	select {
	case m := <-p.in:
		if m.Header.Get("Status") == "503" && len(m.Data) == 0 && m.Header.Get("Description") == "" { // nobody reads this stream directly
			m.Header.Set("Description", "no replica gives direct reads of the stream")
		}
		return m, nil
	case <-p.closed:
		return nil, nats.ErrConnectionClosed
	case <-patience.C:
		return nil, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
