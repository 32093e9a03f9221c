package natstest

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// A port that is reserved is its server's whenever that listens, and in use for everybody else.
func TestReserve(t *testing.T) {
	t.Parallel()
	port := reserve(t)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for range 2 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}
	if c, err := dialer.Dial("tcp", Start(t).address()); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			c.Close()
		}
		t.Errorf("a connection from port %d: %v, want that it is in use", port, err)
	}
}
