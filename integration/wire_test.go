package integration_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guyline/guyline/internal/natstest"
)

// wire speaks the server's protocol itself, to publish what no client library would.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, srv *natstest.Server) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w := &wire{conn, bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if line, err := w.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") {
		t.Fatalf("the server begins with %q, %v", line, err)
	}
	w.say(t, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\n")
	return w
}

// publish sends one message with this header block, and waits until the server has read it.
func (w *wire) publish(t testing.TB, subject, block string, payload []byte) {
	t.Helper()
	w.say(t, fmt.Sprintf("HPUB %s %d %d\r\n%s%s\r\n", subject, len(block), len(block)+len(payload), block, payload))
}

// say sends a command and waits until the server has taken it.
func (w *wire) say(t testing.TB, command string) {
	t.Helper()
	if _, err := fmt.Fprint(w, command, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := w.in.ReadString('\n')
		switch {
		case err != nil:
			t.Fatalf("%.40q: %v", command, err)
		case strings.HasPrefix(line, "PONG"):
			return
		case strings.HasPrefix(line, "-ERR"):
			t.Fatalf("%.40q: %s", command, line)
		}
	}
}

// line is a worker's way to the server, which can be cut and mended, and can be slow once.
type line struct {
	mu     sync.Mutex
	down   bool
	open   []net.Conn
	thawed chan struct{} // closed when what comes from the server goes on; nil if nothing is held up
}

// Dial is called by the client library, at each reconnect too.
func (l *line) Dial(network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("the line is cut")
	}
	conn, err := net.DialTimeout(network, address, 20*time.Second)
	if err == nil {
		l.open = append(l.open, conn)
	}
	return held{conn, l}, err
}

// cut leaves the worker running and deaf: neither its heartbeats nor anything else reaches the server.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, conn := range l.open {
		conn.Close()
	}
}

// mend lets the client library connect again.
func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.open = false, nil
}

// freeze holds up what comes from the server for so long, as a pause of the server or of this process does.
func (l *line) freeze(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	thawed := make(chan struct{})
	l.thawed = thawed
	time.AfterFunc(d, func() { close(thawed) })
}

// held is a connection of a line.
type held struct {
	net.Conn
	line *line
}

func (h held) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.line.mu.Lock()
	thawed := h.line.thawed
	h.line.mu.Unlock()
	if thawed != nil {
		<-thawed
	}
	return n, err
}
