// Package jsapi makes the few JetStream requests for which nats.go's jetstream package has no call, above all
// reads that are answered by the stream's leader ([Get], [Last], [Next], [Delete]) and reads of many messages in one
// request, which any replica answers ([Bodies], [Lasts]), and holds two that several rooms share ([Scan], [Ensure]).
//
// Stream.GetMsg and KeyValue.Get are answered by any replica when the stream allows direct reads,
// and a replica may lag (measured with three replicas: 8 % of reads right after a write miss it). What must
// not be decided on a stale answer is read here, through $JS.API.STREAM.MSG.GET, which only the leader serves.
package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNotFound says that the leader has no such message.
var ErrNotFound = errors.New("no such message")

// Timeout bounds each request whose context has no earlier deadline.
const Timeout = 5 * time.Second

type getRequest struct {
	Seq       uint64 `json:"seq,omitempty"`
	LastFor   string `json:"last_by_subj,omitempty"`
	NextFor   string `json:"next_by_subj,omitempty"`
	NoHeaders bool   `json:"no_hdr,omitempty"`
}

// Get reads one message by its sequence, or returns [ErrNotFound].
func Get(ctx context.Context, js jetstream.JetStream, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	if seq == 0 { // no message has it, and the server would call it a bad request
		return nil, ErrNotFound
	}
	return get(ctx, js, stream, getRequest{Seq: seq})
}

// Last reads the newest message on a subject, which may have wildcards, or returns [ErrNotFound].
func Last(ctx context.Context, js jetstream.JetStream, stream, subject string) (*jetstream.RawStreamMsg, error) {
	return get(ctx, js, stream, getRequest{LastFor: subject})
}

// Next reads the first message on a subject, which may have wildcards, whose sequence is at least seq,
// or returns [ErrNotFound].
func Next(ctx context.Context, js jetstream.JetStream, stream, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	return get(ctx, js, stream, getRequest{Seq: seq, NextFor: subject})
}

// Delete removes one message by its sequence. [ErrNotFound] says that it was not there.
func Delete(ctx context.Context, js jetstream.JetStream, stream string, seq uint64) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	err := call(ctx, js, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": seq, "no_erase": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Error == nil:
		return nil
	}
	// The server has one code, 10057, for "not there" and for a failing store (v2.15.3).
	if _, err := Get(ctx, js, stream, seq); errors.Is(err, ErrNotFound) {
		return ErrNotFound
	}
	return fmt.Errorf("delete message %d of %s: %w", seq, stream, answer.Error)
}

func get(ctx context.Context, js jetstream.JetStream, stream string, req getRequest) (*jetstream.RawStreamMsg, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	err := call(ctx, js, "STREAM.MSG.GET."+stream, req, &answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, ErrNotFound
	case answer.Error != nil:
		return nil, fmt.Errorf("read from %s: %w", stream, answer.Error)
	case answer.Message == nil:
		return nil, fmt.Errorf("read from %s: the answer holds no message", stream)
	}
	m := answer.Message
	// A header block that cannot be read is treated as the client library treats it: as none.
	header, _ := nats.DecodeHeadersMsg(m.Header)
	return &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Sequence, Header: header, Data: m.Data, Time: m.Time}, nil
}

func call(ctx context.Context, js jetstream.JetStream, api string, req, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	reply, err := js.Conn().RequestWithContext(ctx, Prefix(js)+api, body)
	if err != nil {
		return fmt.Errorf("%s: %w", api, err)
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("%s: %w", api, err)
	}
	return nil
}

// Prefix is what JetStream requests begin with: "$JS.API." unless the context has a domain or a prefix of its own.
func Prefix(js jetstream.JetStream) string {
	o := js.Options()
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return "$JS.API."
}
