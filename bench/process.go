package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ServerCommand is the hidden command as which the program starts itself, see [Serve].
const ServerCommand = "bench-server"

// serverSettings is what a server process is told, in the first line of its standard input: the token is seen by nobody else.
type serverSettings struct {
	Port  int // 0: any
	Token string
	Dir   string
	Sync  bool
}

// serving is what a server process says once it serves.
type serving struct {
	Port int
}

// process is a server process. It dies with this process: the kernel sees to that where it can, and everywhere the server ends when its
// standard input does.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// patience is how long a server may take to recover a large store.
const patience = 5 * time.Minute

// startProcess starts this program as a server, waits until it serves and returns its port.
func startProcess(ctx context.Context, s serverSettings) (*process, int, error) {
	fail := func(err error) (*process, int, error) {
		return nil, s.Port, fmt.Errorf("start the server process: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	first, err := json.Marshal(s)
	if err != nil {
		return fail(err)
	}
	p := &process{cmd: exec.Command(self, ServerCommand), ended: make(chan struct{})}
	complaints := &tail{}
	p.cmd.Stderr = complaints
	p.cmd.SysProcAttr = attributes()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	if err := p.cmd.Start(); err != nil {
		return fail(err)
	}
	p.stdin = stdin
	said := make(chan serving, 1)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var word serving
			if json.Unmarshal(lines.Bytes(), &word) == nil && word.Port > 0 {
				said <- word
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
		_ = p.cmd.Wait() // how it ended is its own to tell
	}()
	_, _ = stdin.Write(append(first, '\n')) // if that fails it is dead already
	select {
	case word := <-said:
		return p, word.Port, nil
	case <-p.ended:
		return fail(errors.New(complaints.last()))
	case <-time.After(patience):
		err = fmt.Errorf("it does not serve after %v", patience)
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.kill()
	return fail(err)
}

// kill ends it and waits for that.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // the dead do not mind
	<-p.ended
	p.stdin.Close()
}

// stop lets it end in good order and waits for that.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.stdin.Close()
	<-p.ended
}

// Serve is a server process: nats-server with JetStream on loopback, for whoever knows the token. It ends when ctx does, or the standard
// input.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer) error {
	var s serverSettings
	lines := bufio.NewScanner(in)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &s) != nil || s.Dir == "" || s.Token == "" {
		return errors.New("no settings on standard input: this command is for the use of `guyline bench` alone")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for lines.Scan() {
		}
	}()
	port := s.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "guyline-bench", Host: "127.0.0.1", Port: port, Authorization: s.Token, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: s.Dir, SyncAlways: s.Sync, JetStreamMaxStore: 1 << 50,
	})
	if err != nil {
		return err
	}
	srv.SetLogger(serverLog{log}, false, false)
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	addr, ok := srv.Addr().(*net.TCPAddr)
	if !ok || !srv.ReadyForConnections(patience) {
		return errors.New("the server does not accept connections")
	}
	if err := json.NewEncoder(out).Encode(serving{addr.Port}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// serverLog writes what the server complains about.
type serverLog struct{ to io.Writer }

func (l serverLog) Fatalf(format string, v ...any) { fmt.Fprintf(l.to, format+"\n", v...) }
func (l serverLog) Errorf(format string, v ...any) { fmt.Fprintf(l.to, format+"\n", v...) }
func (l serverLog) Warnf(format string, v ...any)  { fmt.Fprintf(l.to, format+"\n", v...) }
func (l serverLog) Noticef(string, ...any)         {}
func (l serverLog) Debugf(string, ...any)          {}
func (l serverLog) Tracef(string, ...any)          {}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-tailBytes):]
	return len(b), nil
}

// last is the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return "it ended: " + lines[len(lines)-1]
}
