package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Stream is the name of the trail's stream.
const Stream = "REPORTS_AUDIT"

var (
	// ErrNotFound says that the trail has no event of a report.
	ErrNotFound = errors.New("no event in the audit trail")
	// ErrUnreadable says that something in the trail is not an event of ours.
	ErrUnreadable = errors.New("the audit trail holds something that is not an event")
)

// Setup creates the stream, or updates it but for its limits on bytes, messages and age: those belong to whoever set them.
func Setup(ctx context.Context, js jetstream.JetStream, replicas int) error {
	return jsapi.Ensure(ctx, js, StreamConfig(replicas))
}

// StreamConfig is what [Setup] makes of the stream.
func StreamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        Stream,
		Description: "Guyline: the audit trail, append only",
		Subjects:    []string{"reports.audit.>"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		Storage:     jetstream.FileStorage,
		Replicas:    replicas,
	}
}

// Trail is the audit trail on one server. It is safe for concurrent use.
type Trail struct{ js jetstream.JetStream }

// New returns the trail without asking the server.
func New(js jetstream.JetStream) *Trail { return &Trail{js} }

// Append writes an event and waits until the server has stored it. An event that the server has already, by
// its name, is no error.
func (t *Trail) Append(ctx context.Context, e Event) error {
	ctx, cancel := context.WithTimeout(ctx, jsapi.Timeout) // an answer that is lost never comes
	defer cancel()
	msg, err := message(e)
	if err == nil {
		_, err = t.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(Stream))
	}
	if err != nil {
		return fmt.Errorf("audit trail: append %s of %s: %w", e.Kind, e.Key.Short(), err)
	}
	return nil
}

// AppendAsync writes an event without waiting. Whether it arrived is not learnt: it is for events
// that nothing depends on.
func (t *Trail) AppendAsync(e Event) error {
	msg, err := message(e)
	if err == nil {
		_, err = t.js.PublishMsgAsync(msg, jetstream.WithExpectStream(Stream))
	}
	if err != nil {
		return fmt.Errorf("audit trail: append %s of %s: %w", e.Kind, e.Key.Short(), err)
	}
	return nil
}

// Log yields the events of one report in order, equal ones once. The site may be "*". What is not an event is [ErrUnreadable], and others
// may follow: nothing can be removed from the trail.
func (t *Trail) Log(ctx context.Context, site report.Token, key report.Key) iter.Seq2[Event, error] {
	return t.read(ctx, subject(site, key))
}

// All yields the events of every report in order, equal ones once. See [Trail.Log] for what is not an event.
func (t *Trail) All(ctx context.Context) iter.Seq2[Event, error] {
	return t.read(ctx, "reports.audit.>")
}

func (t *Trail) read(ctx context.Context, subject string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		type name struct{ id, hash string }
		seen := map[name]bool{}
		for m, err := range jsapi.Scan(ctx, t.js, Stream, subject, false) {
			var e Event
			if err == nil {
				e, err = readEvent(m)
			}
			if err != nil {
				if !yield(Event{}, err) || !errors.Is(err, ErrUnreadable) {
					return
				}
				continue
			}
			n := name{e.ID(), e.Hash}
			if seen[n] {
				continue
			}
			seen[n] = true
			if !yield(e, nil) {
				return
			}
		}
	}
}

func subject(site report.Token, key report.Key) string {
	return "reports.audit." + string(site) + "." + string(key)
}

func message(e Event) (*nats.Msg, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{
		Subject: subject(report.NewToken(e.SiteID), e.Key),
		Header:  nats.Header{jetstream.MsgIDHeader: {e.ID()}},
		Data:    body,
	}, nil
}

func readEvent(m *jetstream.RawStreamMsg) (Event, error) {
	var e Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return e, fmt.Errorf("%w: sequence %d: %w", ErrUnreadable, m.Sequence, err)
	}
	return e, nil
}
