package natstest

import (
	"net"
	"syscall"
	"testing"
)

// reserve picks a loopback port and keeps it until t ends: a server gets it back after it was away, as nobody else, in no process, is given it as
// a free one meanwhile. The kernel lets a socket listen on a port to which another one is bound that does not listen, if both
// allow that, as every listener of Go does.
func reserve(t testing.TB) (port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("natstest: reserve a port: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	address := &syscall.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, address)
	}
	if err != nil {
		t.Fatalf("natstest: reserve a port: %v", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("natstest: reserve a port: %v", err)
	}
	return bound.(*syscall.SockaddrInet4).Port
}
