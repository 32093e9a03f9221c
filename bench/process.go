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
	"runtime/pprof"
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

// answer is what a server process says once it serves, and to each word it is told.
type answer struct {
	Port  int
	Error string
}

// profileWord begins what a server process is told: where to write a profile of its processor time from now on; with no file, to end it.
const profileWord = "profile "

// process is a server process. It dies with this process: the kernel sees to that where it can, and everywhere the server ends when its
// standard input does.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  chan answer
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
	p := &process{cmd: exec.Command(self, ServerCommand), said: make(chan answer), ended: make(chan struct{})}
	complaints := &tail{}
	p.cmd.Stderr = complaints
	p.cmd.SysProcAttr = attributes()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	if err := p.cmd.Start(); err != nil {
		return fail(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var word answer
			if json.Unmarshal(lines.Bytes(), &word) == nil {
				p.said <- word // somebody asked, and waits
			}
		}
		_ = p.cmd.Wait() // how it ended is its own to tell
	}()
	word, err := p.ask(ctx, string(first))
	if err != nil {
		p.kill()
		if said := complaints.last(); said != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return fail(err)
	}
	return p, word.Port, nil
}

// ask tells it something and waits for its answer. After an error it is to be killed.
func (p *process) ask(ctx context.Context, line string) (answer, error) {
	_, _ = io.WriteString(p.stdin, line+"\n") // if that fails it is dead already
	select {
	case word := <-p.said:
		if word.Error != "" {
			return word, errors.New(word.Error)
		}
		return word, nil
	case <-p.ended:
		return answer{}, errors.New("it has ended")
	case <-time.After(patience):
		return answer{}, fmt.Errorf("no answer after %v", patience)
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// kill ends it and waits for that.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // the dead do not mind
	p.wait()
}

// stop lets it end in good order and waits for that.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.stdin.Close()
	p.wait()
}

// wait waits until it has ended. What it still says is an answer that nobody waits for any more.
func (p *process) wait() {
	for {
		select {
		case <-p.said:
		case <-p.ended:
			p.stdin.Close()
			return
		}
	}
}

// Serve is a server process: nats-server with JetStream on loopback, for whoever knows the token. It ends when ctx does, or the standard
// input.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer) error {
	var s serverSettings
	lines := bufio.NewScanner(in)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &s) != nil || s.Dir == "" || s.Token == "" {
		return errors.New("no settings on standard input: this command is for the use of `guyline bench` alone")
	}
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
	say := json.NewEncoder(out)
	if err := say.Encode(answer{Port: addr.Port}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		var p profile
		for lines.Scan() {
			var a answer
			if file, ok := strings.CutPrefix(lines.Text(), profileWord); !ok {
				a.Error = "it does not know the word"
			} else if err := p.turn(file); err != nil {
				a.Error = err.Error()
			}
			_ = say.Encode(a) // whoever asked may be gone
		}
	}()
	<-ctx.Done()
	return nil
}

// profile is a profile of this process's processor time that is being written.
type profile struct{ file *os.File }

// turn begins one in a new file, or with no name ends the one that is being written.
func (p *profile) turn(name string) (err error) {
	if p.file != nil {
		pprof.StopCPUProfile()
		err = p.file.Close()
		p.file = nil
	}
	if name == "" || err != nil {
		return err
	}
	if p.file, err = os.Create(name); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
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
	return lines[len(lines)-1]
}
