package proof

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
)

// Stream is the name of the checkpoints' stream, on the server that they are about. Keep copies elsewhere too.
const Stream = "REPORTS_CHECKPOINTS"

const (
	noteSubject   = "reports.checkpoints.note"
	leavesSubject = "reports.checkpoints.leaves"

	headerFirst = "Guyline-First" // of leaves: index of the first

	leavesAtOnce = 16384 // 512 KiB, well below what a server takes as one message
)

// ErrRace says that somebody else has appended a checkpoint in the same moment.
var ErrRace = errors.New("another checkpoint was made in the same moment")

// Setup creates the stream, or updates it but for its limits on bytes, messages and age: those belong to whoever set them.
func Setup(ctx context.Context, js jetstream.JetStream, replicas int) error {
	return jsapi.Ensure(ctx, js, StreamConfig(replicas))
}

// HasCheckpoint reports whether there is a checkpoint, which needs every result that it covers.
func HasCheckpoint(ctx context.Context, js jetstream.JetStream) (bool, error) {
	s, err := js.Stream(ctx, Stream)
	if err != nil {
		return false, fmt.Errorf("checkpoints: %w", err)
	}
	return s.CachedInfo().State.Msgs > 0, nil
}

// StreamConfig is what [Setup] makes of the stream.
func StreamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        Stream,
		Description: "Guyline: signed checkpoints of the audit trail and the ledger, append only",
		Subjects:    []string{noteSubject, leavesSubject},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		Storage:     jetstream.FileStorage,
		Replicas:    replicas,
	}
}

// Log is the trail, the ledger and the letters of one server, as something to be proved. It is safe for concurrent use.
type Log struct {
	js      jetstream.JetStream
	ledger  *keyvalue.Ledger
	letters *dlq.Queue
}

// New returns the log without asking the server.
func New(js jetstream.JetStream, ledger *keyvalue.Ledger, letters *dlq.Queue) *Log {
	return &Log{js, ledger, letters}
}

// stored is a note and where it was found.
type stored struct {
	sequence uint64 // in the checkpoints' stream; 0 for a file
	note     []byte
}

// notes reads all notes of the stream, oldest first.
func (l *Log) notes(ctx context.Context) (notes []stored, err error) {
	for m, err := range jsapi.Scan(ctx, l.js, Stream, noteSubject, false) {
		if err != nil {
			return nil, fmt.Errorf("checkpoints: %w", err)
		}
		notes = append(notes, stored{m.Sequence, m.Data[:min(len(m.Data), MaxNote+1)]})
	}
	return notes, nil
}

// last is the sequence of the newest message on a subject, 0 if there is none, read through the leader.
func (l *Log) last(ctx context.Context, subject string) (uint64, error) {
	m, err := jsapi.Last(ctx, l.js, Stream, subject)
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("checkpoints: %w", err)
	}
	return m.Sequence, nil
}

// append writes a message if the newest on its subject has the sequence last, and returns its own. Otherwise it is [ErrRace].
func (l *Log) append(ctx context.Context, m *nats.Msg, last uint64) (uint64, error) {
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(Stream))
	if e, ok := errors.AsType[*jetstream.APIError](err); ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || e.ErrorCode == 10164) {
		return 0, ErrRace
	}
	if err != nil {
		return 0, fmt.Errorf("checkpoints: append to %s: %w", m.Subject, err)
	}
	return ack.Sequence, nil
}

// appendLeaves writes record hashes, of which the first has the index first.
func (l *Log) appendLeaves(ctx context.Context, first int64, leaves []tlog.Hash, last uint64) (err error) {
	for len(leaves) > 0 {
		n := min(len(leaves), leavesAtOnce)
		m := &nats.Msg{Subject: leavesSubject, Header: nats.Header{headerFirst: {strconv.FormatInt(first, 10)}}}
		for _, h := range leaves[:n] {
			m.Data = append(m.Data, h[:]...)
		}
		if last, err = l.append(ctx, m, last); err != nil {
			return err
		}
		leaves, first = leaves[n:], first+int64(n)
	}
	return nil
}

// leaves reads the record hashes of the first events, as they were stored before the message with the given sequence (0: all). Later
// ones replace earlier ones. They prove nothing until they hash to a root that was signed. There may be fewer than size.
func (l *Log) leaves(ctx context.Context, size int64, before uint64) (leaves []tlog.Hash, err error) {
	for m, err := range jsapi.Scan(ctx, l.js, Stream, leavesSubject, false) {
		if err != nil {
			return nil, fmt.Errorf("checkpoints: %w", err)
		}
		if before > 0 && m.Sequence > before {
			break
		}
		first, err := strconv.ParseInt(m.Header.Get(headerFirst), 10, 64)
		if err != nil || first < 0 || first > int64(len(leaves)) {
			continue
		}
		for i, data := first, m.Data; len(data) >= tlog.HashSize && i < size; i, data = i+1, data[tlog.HashSize:] {
			h := tlog.Hash(data[:tlog.HashSize])
			if i < int64(len(leaves)) {
				leaves[i] = h
			} else {
				leaves = append(leaves, h)
			}
		}
	}
	return leaves, nil
}
