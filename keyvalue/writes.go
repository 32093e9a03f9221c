package keyvalue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/burst"
	"github.com/guyline/guyline/internal/jsapi"
)

// writes sends compare-and-set writes to a bucket and tells each caller its own answer. No write waits for the one before: as many are
// on their way as there are callers. All answers come over one subscription. It is safe for concurrent use.
//
// nats.go's asynchronous publisher does the same with a future for each message and a full JSON decoder for each answer
// (v1.55.0); docs/performance.md has what that costs.
type writes struct {
	nc    *nats.Conn
	out   *burst.Publisher
	inbox string // answers come on inbox.<number>
	known string // how the server's answer to a write that succeeded begins

	mu     sync.Mutex
	number uint64
	open   map[uint64]chan answer // writes without an answer
}

// answer is what the server says to a write, or why it was never asked.
type answer struct {
	msg *nats.Msg
	err error
}

func openWrites(nc *nats.Conn, stream string) (*writes, error) {
	w := &writes{
		nc: nc, out: burst.New(nc), inbox: nc.NewInbox(), known: fmt.Sprintf(`{"stream":%q,"seq":`, stream), open: map[uint64]chan answer{},
	}
	if _, err := nc.Subscribe(w.inbox+".*", w.answered); err != nil {
		return nil, err
	}
	return w, nil
}

// put writes a value if the newest message on its subject has the sequence revision, 0 meaning that there is none, and returns the new
// sequence. [ErrConflict] says that it has another. After an error of another kind the write may have happened.
func (w *writes) put(ctx context.Context, subject string, value []byte, revision uint64) (uint64, error) {
	return w.send(ctx, &nats.Msg{Subject: subject, Header: expecting(revision), Data: value})
}

// expecting is the header of a compare-and-set.
func expecting(revision uint64) nats.Header {
	return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}}
}

// send publishes a message and waits for the server's answer to it, but not for longer than [jsapi.Timeout].
func (w *writes) send(ctx context.Context, m *nats.Msg) (uint64, error) {
	patience := time.NewTimer(jsapi.Timeout)
	defer patience.Stop()
	number, told := w.expect()
	defer w.forget(number)
	m.Reply = w.inbox + "." + strconv.FormatUint(number, 10)
	w.out.Publish(m, func(err error) { w.tell(number, answer{err: err}) })
	select {
	case a := <-told:
		if a.err != nil {
			return 0, a.err
		}
		return w.read(a.msg)
	case <-patience.C:
		return 0, fmt.Errorf("no answer within %v: %w", jsapi.Timeout, context.DeadlineExceeded)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (w *writes) expect() (uint64, <-chan answer) {
	told := make(chan answer, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	w.open[w.number] = told
	return w.number, told
}

func (w *writes) forget(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, number)
}

func (w *writes) answered(m *nats.Msg) {
	number, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil {
		return
	}
	w.tell(number, answer{msg: m})
}

func (w *writes) tell(number uint64, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told := w.open[number]; told != nil { // else it comes too late
		delete(w.open, number) // so that a second one does not block
		told <- a
	}
}

// read is the sequence that a write was given, or why there is none.
func (w *writes) read(m *nats.Msg) (uint64, error) {
	if rest, ok := bytes.CutPrefix(m.Data, []byte(w.known)); ok && bytes.HasSuffix(rest, []byte("}")) { // almost every answer, read without a decoder
		if seq, err := strconv.ParseUint(string(rest[:len(rest)-1]), 10, 64); err == nil {
			return seq, nil
		}
	}
	if m.Header.Get("Status") == "503" {
		return 0, jetstream.ErrNoStreamResponse
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, fmt.Errorf("the server's answer is unreadable: %w", err)
	}
	switch {
	case ack.Error == nil && ack.Sequence > 0:
		return ack.Sequence, nil
	case ack.Error == nil:
		return 0, fmt.Errorf("the server's answer is %.100q", m.Data)
	case ack.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence,
		ack.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant: // on replicated streams
		return 0, ErrConflict
	}
	return 0, ack.Error
}
