package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Stream is the name of the letters' stream.
const Stream = "REPORTS_DLQ"

var (
	// ErrNotFound says that there is no such letter, or that it has been replaced by a newer one.
	ErrNotFound = errors.New("no such dead letter")
	// ErrConflict says that the report's letter is not the one that [Queue.Put] was to replace.
	ErrConflict = errors.New("the report's letter has changed")
	// ErrForged says that a letter is none of Guyline's, or was changed: its audit hash does not fit its reason, its payload is another
	// report's, or the trail has recorded another reason for the very death that it is about. Nobody acts on such a letter. A burial puts its own in the
	// place of one of the first two kinds.
	ErrForged = errors.New("nobody acts on such a letter: `guyline dlq verify` names them all")
	// ErrAmbiguous says that the beginning of a key fits more than one letter.
	ErrAmbiguous = errors.New("more than one dead letter begins like that")
)

// Setup creates the stream, or updates it but for its limits on bytes, messages and age: those belong to whoever set them.
func Setup(ctx context.Context, js jetstream.JetStream, replicas int) error {
	return jsapi.Ensure(ctx, js, StreamConfig(replicas))
}

// StreamConfig is what [Setup] makes of the stream.
func StreamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              Stream,
		Description:       "Guyline: dead letters, the newest of each report",
		Subjects:          []string{"reports.dlq.>"},
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
	}
}

// Queue is the dead-letter queue on one server. It is safe for concurrent use.
type Queue struct {
	js     jetstream.JetStream
	queues *stream.Queues
	ledger *keyvalue.Ledger
	trail  *audit.Trail
	most   int          // replays of one report before its letter is quarantined
	step   func(string) // nil outside tests: called after each step of an act
}

// DefaultReplayMax is how often a report may be replayed unless the configuration says otherwise.
const DefaultReplayMax = 5

// New returns the dead-letter queue without asking the server. A letter whose report has been replayed replayMax times is
// quarantined: only [By.Force] replays it again.
func New(js jetstream.JetStream, queues *stream.Queues, ledger *keyvalue.Ledger, trail *audit.Trail, replayMax int) *Queue {
	return &Queue{js: js, queues: queues, ledger: ledger, trail: trail, most: replayMax}
}

// Quarantined reports whether a letter's report has been replayed so often that only a person may replay it again, by its key.
func (q *Queue) Quarantined(l Letter) bool { return l.Replays >= q.most }

// Put writes a letter if the report's present letter has the sequence last, 0 meaning that there is none, and returns
// the new sequence. Otherwise nothing is written and the error is [ErrConflict]. A letter that the server finds too
// large, or the client library not fit to be sent, is written without the publisher's headers.
func (q *Queue) Put(ctx context.Context, l Letter, last uint64) (uint64, error) {
	seq, err := q.put(ctx, l, last)
	if unfit(err) && len(l.Foreign) > 0 {
		l.Dropped, l.Foreign = l.Dropped+len(l.Foreign), nil
		seq, err = q.put(ctx, l, last)
	}
	switch {
	case stream.Conflict(err):
		return 0, ErrConflict
	case err != nil:
		return 0, fmt.Errorf("dead-letter queue: put %s: %w", l.Key.Short(), err)
	}
	return seq, nil
}

func (q *Queue) put(ctx context.Context, l Letter, last uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, jsapi.Timeout) // an answer that is lost never comes
	defer cancel()
	msg := &nats.Msg{Subject: subject(l.Site, l.Key), Header: l.header(), Data: l.Body}
	ack, err := q.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(Stream))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// unfit: codes of server v2.15.3: 10054 message, 10097 headers too large; and what the client refuses to send.
func unfit(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum || e.ErrorCode == 10097) ||
		errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadHeaderMsg)
}

// Current reads a report's letter, whole, through the leader, or returns [ErrNotFound]. The site may be "*".
func (q *Queue) Current(ctx context.Context, site report.Token, key report.Key) (Letter, error) {
	return q.read(jsapi.Last(ctx, q.js, Stream, subject(site, key)))
}

// At reads one letter, whole, through the leader, or returns [ErrNotFound].
func (q *Queue) At(ctx context.Context, seq uint64) (Letter, error) {
	return q.read(jsapi.Get(ctx, q.js, Stream, seq))
}

// After reads the first letter, whole, whose sequence is at least seq, or returns [ErrNotFound].
func (q *Queue) After(ctx context.Context, seq uint64) (Letter, error) {
	return q.read(jsapi.Next(ctx, q.js, Stream, subject("*", "*"), seq))
}

func (q *Queue) read(m *jetstream.RawStreamMsg, err error) (Letter, error) {
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return Letter{}, ErrNotFound
	case err != nil:
		return Letter{}, fmt.Errorf("dead-letter queue: %w", err)
	}
	return readLetter(m.Subject, m.Sequence, m.Header, whole(m.Data)), nil
}

// Find reads the one letter, whole, whose key begins with prefix. It returns [ErrNotFound] or [ErrAmbiguous].
func (q *Queue) Find(ctx context.Context, prefix string) (Letter, error) {
	prefix = strings.ToLower(prefix)
	if !report.IsKeyPrefix(prefix) {
		return Letter{}, fmt.Errorf("%q is not the beginning of a key (1-64 hex digits)", prefix)
	}
	if len(prefix) == 64 {
		return q.Current(ctx, "*", report.Key(prefix))
	}
	s, err := q.js.Stream(ctx, Stream)
	if err != nil {
		return Letter{}, fmt.Errorf("dead-letter queue: %w", err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject("*", "*")))
	if err != nil {
		return Letter{}, fmt.Errorf("dead-letter queue: %w", err)
	}
	var found []string
	for name := range info.State.Subjects {
		if key := name[strings.LastIndexByte(name, '.')+1:]; strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 0:
		return Letter{}, fmt.Errorf("%s: %w", prefix, ErrNotFound)
	case 1:
		return q.Current(ctx, "*", report.Key(found[0]))
	}
	return Letter{}, fmt.Errorf("%s: %w: %d do, for instance %.12s and %.12s", prefix, ErrAmbiguous, len(found), found[0], found[1])
}

func subject(site report.Token, key report.Key) string {
	return "reports.dlq." + string(site) + "." + string(key)
}
