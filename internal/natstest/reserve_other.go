//go:build !linux

package natstest

import (
	"net"
	"testing"
)

// reserve picks a free loopback port. While its server is away somebody else may get it.
func reserve(t testing.TB) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("natstest: reserve a port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
