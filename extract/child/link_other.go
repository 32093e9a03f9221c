//go:build !unix

package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

const cpuSpent = syscall.Signal(24) // never seen here

// link is one end of the connection between pool and process: two pipes. They carry a file's path, not an open file.
type link struct {
	in, out *os.File
	lines   *bufio.Reader // of in
}

// connect gives cmd its ends as standard input and output, to be closed by the caller when cmd has started.
func connect(cmd *exec.Cmd) (ours *link, theirs []*os.File, err error) {
	requests, out, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	in, answers, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pipe: %w", err), requests.Close(), out.Close())
	}
	cmd.Stdin, cmd.Stdout = requests, answers
	return newLink(in, out), []*os.File{requests, answers}, nil
}

// inherited is the process's end.
func inherited() (*link, error) { return newLink(os.Stdin, os.Stdout), nil }

func newLink(in, out *os.File) *link { return &link{in, out, bufio.NewReader(in)} }

func (l *link) Read(p []byte) (int, error)  { return l.lines.Read(p) }
func (l *link) Write(p []byte) (int, error) { return l.out.Write(p) }
func (l *link) Close() error                { return errors.Join(l.out.Close(), l.in.Close()) }

// send passes the open file's path along with the request.
func (l *link) send(req request, f *os.File) error {
	req.Path = f.Name()
	_, err := l.Write(req.line())
	return err
}

// receive returns io.EOF when the other side is gone.
func (l *link) receive() (req request, f *os.File, err error) {
	line, err := l.lines.ReadBytes('\n')
	if err != nil {
		return req, nil, io.EOF
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return req, nil, err
	}
	f, err = os.Open(req.Path)
	return req, f, err
}
