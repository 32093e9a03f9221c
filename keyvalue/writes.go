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

	"github.com/guyline/guyline/internal/jsapi"
)

// writes sends compare-and-set writes to a bucket and tells each caller its own answer. No write waits for the one before: as many are
// on their way as callers start. All answers come over one subscription. It is safe for concurrent use.
//
// nats.go's asynchronous publisher does the same with a future for each message and a full JSON decoder for each answer
// (v1.55.0); decision 15 says what that costs.
type writes struct {
	nc      *nats.Conn
	answers string // come on this and the number of the write
	known   string // how the server's answer to a write that succeeded begins

	mu     sync.Mutex
	number uint64
	open   map[uint64]write // without an answer
	clock  *time.Timer      // nil while there are none
}

type write struct {
	since time.Time
	done  func(seq uint64, err error)
}

func openWrites(nc *nats.Conn, stream string) (*writes, error) {
	w := &writes{nc: nc, answers: nc.NewInbox() + ".", known: fmt.Sprintf(`{"stream":%q,"seq":`, stream), open: map[uint64]write{}}
	if _, err := nc.Subscribe(w.answers+"*", w.answered); err != nil {
		return nil, err
	}
	return w, nil
}

// put writes a value if the newest message on its subject has the sequence revision, 0 meaning that there is none, and returns the new
// sequence. [ErrConflict] says that it has another. After an error of another kind the write may have happened.
func (w *writes) put(ctx context.Context, subject string, value []byte, revision uint64) (uint64, error) {
	return w.send(ctx, compareAndSet(subject, value, revision))
}

// send is [writes.start] for a caller who waits.
func (w *writes) send(ctx context.Context, m *nats.Msg) (uint64, error) {
	type answer struct {
		seq uint64
		err error
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	told := make(chan answer, 1)
	w.start(m, func(seq uint64, err error) { told <- answer{seq, err} })
	select {
	case a := <-told:
		return a.seq, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// expectingNone is the header of nearly every write. It is only read.
var expectingNone = expecting(0)

func compareAndSet(subject string, value []byte, revision uint64) *nats.Msg {
	h := expectingNone
	if revision > 0 {
		h = expecting(revision)
	}
	return &nats.Msg{Subject: subject, Header: h, Data: value}
}

// expecting is the header of a compare-and-set.
func expecting(revision uint64) nats.Header {
	return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}}
}

// start publishes a message and calls done once with the server's answer to it, or with [context.DeadlineExceeded] if there is none within
// [jsapi.Timeout] or a little more. It must not block: other answers wait behind it.
func (w *writes) start(m *nats.Msg, done func(seq uint64, err error)) {
	number := w.expect(done)
	m.Reply = string(strconv.AppendUint(append(make([]byte, 0, 64), w.answers...), number, 10))
	if err := w.nc.PublishMsg(m); err != nil {
		w.tell(number, 0, err)
	}
}

func (w *writes) expect(done func(uint64, error)) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	w.open[w.number] = write{time.Now(), done}
	if w.clock == nil {
		w.clock = time.AfterFunc(jsapi.Timeout, w.expire)
	}
	return w.number
}

// expire gives up the writes that were not answered in time, and looks again while there are others.
func (w *writes) expire() {
	w.mu.Lock()
	late := map[uint64]bool{}
	for number, o := range w.open {
		if time.Since(o.since) >= jsapi.Timeout {
			late[number] = true
		}
	}
	if w.clock = nil; len(w.open) > len(late) {
		w.clock = time.AfterFunc(time.Second, w.expire)
	}
	w.mu.Unlock()
	for number := range late {
		w.tell(number, 0, fmt.Errorf("no answer within %v: %w", jsapi.Timeout, context.DeadlineExceeded))
	}
}

func (w *writes) answered(m *nats.Msg) {
	number, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil {
		return
	}
	seq, err := w.read(m)
	w.tell(number, seq, err)
}

// tell ends a write, unless it has ended.
func (w *writes) tell(number, seq uint64, err error) {
	w.mu.Lock()
	o, ok := w.open[number]
	delete(w.open, number)
	w.mu.Unlock()
	if ok {
		o.done(seq, err)
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
