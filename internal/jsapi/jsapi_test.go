package jsapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

// fill creates the stream S and publishes a message to each subject.
func fill(t testing.TB, js jetstream.JetStream, subjects ...string) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, js, subjects...)
	return s
}

func publish(t testing.TB, js jetstream.JetStream, subjects ...string) {
	t.Helper()
	for _, subject := range subjects {
		msg := &nats.Msg{Subject: subject, Header: nats.Header{"X-Subject": {subject}}, Data: []byte("body of " + subject)}
		if _, err := js.PublishMsg(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	s := fill(t, js, "s.a", "s.b.c", "s.a", "s.b.d", "s.e")
	if err := s.DeleteMsg(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	get := func(seq uint64) func() (*jetstream.RawStreamMsg, error) {
		return func() (*jetstream.RawStreamMsg, error) { return jsapi.Get(ctx, js, "S", seq) }
	}
	last := func(subject string) func() (*jetstream.RawStreamMsg, error) {
		return func() (*jetstream.RawStreamMsg, error) { return jsapi.Last(ctx, js, "S", subject) }
	}
	next := func(subject string, seq uint64) func() (*jetstream.RawStreamMsg, error) {
		return func() (*jetstream.RawStreamMsg, error) { return jsapi.Next(ctx, js, "S", subject, seq) }
	}
	for _, tt := range []struct {
		what    string
		read    func() (*jetstream.RawStreamMsg, error)
		want    uint64 // 0 = not found
		subject string
	}{
		{"no sequence", get(0), 0, ""},
		{"a deleted sequence", get(5), 0, ""},
		{"a sequence to come", get(6), 0, ""},
		{"the largest sequence", get(1<<64 - 1), 0, ""},
		{"last of a subject without messages", last("s.x"), 0, ""},
		{"last of a subject whose message was deleted", last("s.e"), 0, ""},
		{"last of a subject that the stream does not take", last("t.x"), 0, ""},
		{"next after the last one", next("s.a", 4), 0, ""},
		{"next of a deleted one", next("s.*", 5), 0, ""},
		{"a sequence", get(2), 2, "s.b.c"},
		{"last of a subject", last("s.a"), 3, "s.a"},
		{"last of a wildcard", last("s.b.*"), 4, "s.b.d"},
		{"last of everything", last("s.>"), 4, "s.b.d"},
		{"the first of a subject", next("s.a", 0), 1, "s.a"},
		{"next of a subject, itself", next("s.a", 1), 1, "s.a"},
		{"next of a subject", next("s.a", 2), 3, "s.a"},
		{"next of a wildcard", next("s.*.*", 3), 4, "s.b.d"},
	} {
		m, err := tt.read()
		if tt.want == 0 {
			if !errors.Is(err, jsapi.ErrNotFound) {
				t.Errorf("%s: got %v, %v; want ErrNotFound", tt.what, m, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		stored, err := s.GetMsg(ctx, tt.want)
		if err != nil {
			t.Fatal(err)
		}
		want := &jetstream.RawStreamMsg{
			Subject: tt.subject, Sequence: tt.want, Header: nats.Header{"X-Subject": {tt.subject}}, Data: []byte("body of " + tt.subject), Time: stored.Time,
		}
		if !cmp.Equal(m, want) {
			t.Errorf("%s: %s", tt.what, cmp.Diff(want, m))
		}
	}
}

func TestReadWithoutHeaderOrBody(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js)
	if _, err := js.Publish(t.Context(), "s.bare", nil); err != nil {
		t.Fatal(err)
	}
	if m, err := jsapi.Get(t.Context(), js, "S", 1); err != nil || len(m.Header) != 0 || len(m.Data) != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js, "s.a", "s.b")
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}, DenyDelete: true}); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "kept")
	if err := jsapi.Delete(t.Context(), js, "KEPT", 1); err == nil || errors.Is(err, jsapi.ErrNotFound) {
		t.Errorf("a message that may not be deleted: got %v, want another error than ErrNotFound", err)
	}
	if err := jsapi.Delete(t.Context(), js, "S", 3); !errors.Is(err, jsapi.ErrNotFound) {
		t.Errorf("a sequence to come: got %v, want ErrNotFound", err)
	}
	if err := jsapi.Delete(t.Context(), js, "S", 1); err != nil {
		t.Errorf("a stored message: %v", err)
	}
	if err := jsapi.Delete(t.Context(), js, "S", 1); !errors.Is(err, jsapi.ErrNotFound) {
		t.Errorf("the same again: got %v, want ErrNotFound", err)
	}
	if _, err := jsapi.Get(t.Context(), js, "S", 1); !errors.Is(err, jsapi.ErrNotFound) {
		t.Errorf("read the deleted one: got %v, want ErrNotFound", err)
	}
	if _, err := jsapi.Get(t.Context(), js, "S", 2); err != nil {
		t.Errorf("read the other one: %v", err)
	}
}

// requests makes one request of each kind; a scan is drained.
var requests = map[string]func(context.Context, jetstream.JetStream) error{
	"get": func(ctx context.Context, js jetstream.JetStream) error {
		_, err := jsapi.Get(ctx, js, "S", 1)
		return err
	},
	"last": func(ctx context.Context, js jetstream.JetStream) error {
		_, err := jsapi.Last(ctx, js, "S", "s.a")
		return err
	},
	"next": func(ctx context.Context, js jetstream.JetStream) error {
		_, err := jsapi.Next(ctx, js, "S", "s.a", 1)
		return err
	},
	"delete": func(ctx context.Context, js jetstream.JetStream) error { return jsapi.Delete(ctx, js, "S", 1) },
	"scan": func(ctx context.Context, js jetstream.JetStream) error {
		for _, err := range jsapi.Scan(ctx, js, "S", "s.a", false) {
			if err != nil {
				return err
			}
		}
		return nil
	},
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			js := srv.JetStream(t)
			if err := request(t.Context(), js); err == nil || errors.Is(err, jsapi.ErrNotFound) || !strings.Contains(err.Error(), "stream not found") {
				t.Errorf("no such stream: got %v", err)
			}
			fill(t, js, "s.a")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := request(ctx, js); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: got %v, want context.Canceled", err)
			}
			srv.Stop(t)
			natstest.Eventually(t, "the client to notice", func() bool { return !js.Conn().IsConnected() })
			if err := request(t.Context(), js); err == nil || errors.Is(err, jsapi.ErrNotFound) || !strings.Contains(err.Error(), "S") {
				t.Errorf("server stopped: got %v", err)
			}
		})
	}
}

// A connection that buffers while it reconnects does not make a request wait for ever.
func TestServerStoppedBuffering(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Conn(t, nats.ReconnectBufSize(1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, js, "s.a")
	srv.Stop(t)
	ctx := limited(t)
	if _, err := jsapi.Get(ctx, js, "S", 1); ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "STREAM.MSG.GET.S") {
		t.Errorf("got %v, want DeadlineExceeded that names the request", err)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, js, "s.a")
	for _, prefix := range []string{"$JS.API", "$JS.API."} {
		js, err := jetstream.NewWithAPIPrefix(nc, prefix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jsapi.Get(t.Context(), js, "S", 1); err != nil {
			t.Errorf("prefix %s: %v", prefix, err)
		}
	}
	js, err = jetstream.NewWithDomain(nc, "hub")
	if err != nil {
		t.Fatal(err)
	}
	sub, err := nc.Subscribe("$JS.hub.API.STREAM.MSG.GET.S", func(m *nats.Msg) {
		_ = m.Respond(fmt.Appendf(nil, `{"message":{"subject":"s.a","seq":1,"data":%q}}`, "aHVi"))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if m, err := jsapi.Get(t.Context(), js, "S", 1); err != nil || string(m.Data) != "hub" {
		t.Errorf("in a domain: got %+v, %v", m, err)
	}
}
