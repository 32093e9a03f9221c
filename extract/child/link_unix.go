//go:build unix

package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
)

const cpuSpent = syscall.SIGXCPU // ends a process that is over its limit of CPU time

// link is one end of the connection between pool and process: a socket pair, which can carry an open file.
type link struct{ *net.UnixConn }

// connect gives cmd its end as standard input, to be closed by the caller when cmd has started.
func connect(cmd *exec.Cmd) (ours *link, theirs []*os.File, err error) {
	syscall.ForkLock.RLock() // so that no process started elsewhere inherits them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	stdin := os.NewFile(uintptr(fds[1]), "extraction process")
	if ours, err = newLink(os.NewFile(uintptr(fds[0]), "worker")); err != nil {
		stdin.Close()
		return nil, nil, err
	}
	cmd.Stdin = stdin
	return ours, []*os.File{stdin}, nil
}

// inherited is the process's end.
func inherited() (*link, error) { return newLink(os.Stdin) }

// newLink takes f over.
func newLink(f *os.File) (*link, error) {
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("open the socket: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("standard input is a %T; this command is for guyline's own use", conn)
	}
	return &link{unixConn}, nil
}

// send passes the open file along with the request. The caller keeps it open until it has the answer.
func (l *link) send(req request, f *os.File) error {
	raw, err := f.SyscallConn() // f.Fd could make the file blocking
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { _, _, sent = l.WriteMsgUnix(req.line(), syscall.UnixRights(int(fd)), nil) })
	return errors.Join(err, sent)
}

// receive returns io.EOF when the other side is gone.
func (l *link) receive() (req request, f *os.File, err error) {
	var line []byte
	space, control := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
	for !bytes.HasSuffix(line, []byte("\n")) {
		n, c, _, _, err := l.ReadMsgUnix(space, control)
		if err != nil {
			return req, nil, err
		}
		line = append(line, space[:n]...)
		if c > 0 {
			if f, err = received(control[:c]); err != nil {
				return req, nil, err
			}
		}
	}
	if f == nil {
		return req, nil, errors.New("a request without an open file")
	}
	return req, f, json.Unmarshal(line, &req)
}

func received(control []byte) (*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return nil, errors.New("a request with something else than an open file")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("a request with something else than one open file")
	}
	return os.NewFile(uintptr(fds[0]), "report"), nil
}
