package stream

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A report counts as accepted only if the server says so; what is no answer is asked again.
func TestReadAnswer(t *testing.T) {
	t.Parallel()
	full := &jetstream.APIError{}
	for data, want := range map[string]struct {
		duplicate bool
		err       error
		again     bool
	}{
		`{"stream":"REPORTS","seq":17}`:                                      {},
		`{"stream":"REPORTS","domain":"hub","seq":17}`:                       {},
		`{"stream":"REPORTS","seq":17,"duplicate": true}`:                    {duplicate: true},
		`{"stream":"REPORTS","seq":17,"duplicate": false}`:                   {},
		`{"stream":"REPORTS","seq":1`:                                        {err: jetstream.ErrInvalidJSAck, again: true},
		`{"stream":"REPORTS","seq":}`:                                        {err: jetstream.ErrInvalidJSAck, again: true},
		`{"stream":"REPORTS","seq":1}}`:                                      {err: jetstream.ErrInvalidJSAck, again: true},
		`{"seq":1}`:                                                          {err: jetstream.ErrInvalidJSAck, again: true},
		`{"stream":"REPORTS","seq":0,"error":{"code":503,"err_code":10077}}`: {err: full},
		`{"error":{"code":400,"err_code":10054},"stream":"REPORTS","seq":0}`: {err: full},
		"":     {err: nats.ErrNoResponders, again: true},
		"null": {err: jetstream.ErrInvalidJSAck, again: true},
	} {
		duplicate, err := readAnswer(&nats.Msg{Data: []byte(data)})
		if want.err == full {
			if _, is := errors.AsType[*jetstream.APIError](err); !is || unknown(err) {
				t.Errorf("%q: got %v, want a refusal", data, err)
			}
			continue
		}
		if duplicate != want.duplicate || !errors.Is(err, want.err) || err != nil && unknown(err) != want.again {
			t.Errorf("%q: duplicate %v, %v", data, duplicate, err)
		}
	}
}
