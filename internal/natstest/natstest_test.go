package natstest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestRestartKeepsDataAddressAndClients(t *testing.T) {
	t.Parallel()
	srv := Start(t)
	js := srv.JetStream(t)
	nc := js.Conn()
	before := srv.URL()

	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.one", []byte("kept")); err != nil {
		t.Fatal(err)
	}

	srv.Stop(t)
	srv.Stop(t)
	Eventually(t, "the client to notice", func() bool { return !nc.IsConnected() })
	if err := nc.Publish("s.two", nil); err == nil {
		t.Error("a publish while the server is stopped was buffered; want an error")
	}

	srv.Restart(t)
	if got := srv.URL(); got != before {
		t.Errorf("URL after the restart = %s, want %s", got, before)
	}
	Eventually(t, "the client to reconnect", nc.IsConnected)
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(t.Context(), "s.one")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(msg.Data); got != "kept" {
		t.Errorf("message after the restart = %q, want %q", got, "kept")
	}
}

func TestServersAreSeparate(t *testing.T) {
	t.Parallel()
	a, b := Start(t), Start(t)
	if a.URL() == b.URL() {
		t.Fatalf("two servers at %s", a.URL())
	}
	if _, err := a.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "S"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream(t).Stream(t.Context(), "S"); err != jetstream.ErrStreamNotFound {
		t.Errorf("stream of one server seen from the other: err = %v, want %v", err, jetstream.ErrStreamNotFound)
	}
}

func TestLargeStreamFitsAnyDisk(t *testing.T) {
	t.Parallel()
	_, err := Start(t).JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", MaxBytes: 1 << 45})
	if err != nil {
		t.Errorf("create a stream of at most 32 TiB: %v", err)
	}
}

func TestCleanupClosesConnectionsBeforeTheServer(t *testing.T) {
	t.Parallel()
	var (
		srv          *Server
		nc           *nats.Conn
		disconnected atomic.Int32
	)
	t.Run("inner", func(t *testing.T) {
		srv = Start(t)
		nc = srv.Conn(t, nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				disconnected.Add(1) // the server went away under the connection
			}
		}))
	})
	if !nc.IsClosed() {
		t.Error("the connection outlived its test")
	}
	if srv.running != nil {
		t.Error("the server outlived its test")
	}
	if disconnected.Load() != 0 {
		t.Error("the server closed before the connection")
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if poll(func() bool { return false }, time.Second) {
			t.Error("poll(never) = true")
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("poll gave up after %v, want 1s", got)
		}
		calls := 0
		if !poll(func() bool { calls++; return calls == 3 }, time.Second) {
			t.Error("poll(third call) = false")
		}
		start = time.Now()
		if !poll(func() bool { return true }, time.Second) || time.Since(start) != 0 {
			t.Error("poll(at once) waited or failed")
		}
	})
}
