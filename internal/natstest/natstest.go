// Package natstest gives tests a real JetStream server.
//
// A [Server] is the production server in this process, on a loopback port the kernel picks, with
// its data in the test's temporary directory. It starts in about ten milliseconds, so every test
// takes its own and runs in parallel with the others. Nothing is imitated, nothing is shared, and
// nothing is skipped for lack of a server.
//
//	srv := natstest.Start(t)
//	js := srv.JetStream(t)
//
// A fault is the real fault: [Server.Stop] shuts the server down under its clients, and
// [Server.Restart] brings it back on the same port with the same data, so that clients reconnect.
// The data is written to the operating system, not synced to the disk: a restart keeps it, which is
// all these tests ask. [Server.Damage] spoils a message in the store.
//
// Connections and servers close when the test ends, the connections first. t.Context() ends
// before that, so what a test has started on it can still settle its messages.
//
// Tests wait with [Eventually], never by sleeping.
//
// Only _test.go files import this package.
package natstest

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is how long a test waits for something that normally takes milliseconds. It is generous
// because test machines are small, shared and noisy; only a failing test waits this long.
const patience = 2 * time.Minute

// Server is a JetStream server for one test. Its methods are called from the test's goroutine.
type Server struct {
	dir     string
	port    int
	synced  bool
	running *server.Server // nil while stopped
}

// Start starts a server with an empty store. The server stops when t ends.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, &Server{dir: t.TempDir(), port: reserve(t)})
}

// StartSynced is [Start] with a server that syncs every write to the disk.
func StartSynced(t testing.TB) *Server {
	t.Helper()
	return start(t, &Server{dir: t.TempDir(), port: reserve(t), synced: true})
}

func start(t testing.TB, s *Server) *Server {
	t.Helper()
	if !s.start(t) {
		t.Fatalf("natstest: start: no server in %s", s.dir)
	}
	t.Cleanup(s.stop)
	return s
}

// URL returns the address of the server: nats://127.0.0.1:PORT. It stays the same over a restart.
func (s *Server) URL() string {
	u := url.URL{Scheme: "nats", Host: s.address()}
	return u.String()
}

func (s *Server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Conn returns a new connection, which closes when t ends. It goes over loopback TCP and
// reconnects for ever, every 20 ms; while it is disconnected a publish fails at once instead
// of being buffered. Options given in opts come after these and win.
func (s *Server) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, s.URL(), opts)
}

func connect(t testing.TB, address string, opts []nats.Option) *nats.Conn {
	t.Helper()
	opts = append([]nats.Option{
		nats.Name(t.Name()),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
		nats.Timeout(patience),
	}, opts...)
	nc, err := nats.Connect(address, opts...)
	if err != nil {
		t.Fatalf("natstest: connect to %s: %v", address, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// JetStream returns a JetStream context over a connection of its own, made by [Server.Conn].
func (s *Server) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(s.Conn(t))
	if err != nil {
		t.Fatalf("natstest: jetstream context: %v", err)
	}
	return js
}

// Stop shuts the server down and waits until it is gone. Its clients see the connection break.
// Stopping a stopped server does nothing.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.stop()
}

// Restart stops the server if it runs and starts it again with the same store on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.stop()
	Eventually(t, "the server to start again", func() bool { return s.start(t) })
}

// Forget kills the server, as far as a consumer is concerned: it is started again without a memory of its deliveries, as if it had not come to
// write them down.
func (s *Server) Forget(t testing.TB, stream, consumer string) {
	t.Helper()
	s.stop()
	if err := os.Remove(filepath.Join(s.dir, "jetstream", "$G", "streams", stream, "obs", consumer, "o.dat")); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

// Damage changes the first byte of a body in the files of a stream, as a failing disk could, and starts the server again. Other messages must
// be stored behind it: a damaged last one is cut off when the server starts, as if it had not been written to its end.
func (s *Server) Damage(t testing.TB, stream, body string) {
	t.Helper()
	s.stop()
	files, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, name := range files {
		stored, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.ReplaceAll(stored, []byte(body), append([]byte{body[0] ^ 1}, body[1:]...))
		if bytes.Equal(changed, stored) {
			continue
		}
		damaged++
		if err := os.WriteFile(name, changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if damaged == 0 {
		t.Fatalf("natstest: no message of %s has the body %q", stream, body)
	}
	s.Restart(t)
}

// start reports whether the server came up and got its port.
func (s *Server) start(t testing.TB) bool {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		ServerName: "natstest",
		Host:       "127.0.0.1",
		Port:       s.port,
		NoSigs:     true,
		NoLog:      true,
		JetStream:  true,
		StoreDir:   s.dir,
		SyncAlways: s.synced,
		// A stream's MaxBytes is reserved against this limit when the stream is created. The
		// default, three quarters of the free disk, would refuse large streams on small machines.
		JetStreamMaxStore: 1 << 50,
	})
	if err != nil {
		t.Fatalf("natstest: new server: %v", err)
	}
	srv.Start() // returns when the server listens, or has failed to
	if srv.Addr() == nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return false
	}
	s.running = srv
	return true
}

func (s *Server) stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}
