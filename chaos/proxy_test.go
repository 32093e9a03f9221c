package chaos

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// echoed starts a server that sends each line back, with a proxy in front of it.
func echoed(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	p, err := newProxy(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.close()
		l.Close()
	})
	return p
}

func dial(t *testing.T, p *proxy) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, bufio.NewReader(conn)
}

// say sends a line and reads what comes back within a time.
func say(t *testing.T, conn net.Conn, in *bufio.Reader, line string, patience time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(conn, line); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return in.ReadString('\n')
}

func TestProxy(t *testing.T) {
	t.Parallel()
	const long, short = time.Minute, 50 * time.Millisecond
	for _, w := range []way{toServer, fromServer} {
		p := echoed(t)
		conn, in := dial(t, p)
		if got, err := say(t, conn, in, "a\n", long); got != "a\n" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		end := p.lose(w)
		if got, err := say(t, conn, in, "b\n", short); err == nil {
			t.Errorf("way %d: %q arrived during a loss", w, got)
		}
		end(true)
		if got, err := say(t, conn, in, "c\n", long); got != "b\n" || err != nil {
			t.Errorf("way %d: after a loss came %q, %v; want what was late", w, got, err)
		}
		end = p.lose(w)
		_, _ = io.WriteString(conn, "d\n")
		end(false)
		_ = conn.SetReadDeadline(time.Now().Add(long))
		if rest, err := io.ReadAll(in); string(rest) != "c\n" && string(rest) != "" || err == nil {
			t.Errorf("way %d: %q, %v from a connection that was to be reset", w, rest, err)
		}
		conn, in = dial(t, p)
		if got, err := say(t, conn, in, "e\n", long); got != "e\n" || err != nil {
			t.Errorf("way %d: a new connection: %q, %v", w, got, err)
		}
		p.drop()
		if got, err := say(t, conn, in, "f\n", long); err == nil {
			t.Errorf("way %d: %q from a dropped connection", w, got)
		}
	}
}
