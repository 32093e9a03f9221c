package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/guyline/guyline/internal/part"
)

// ServerCommand is the hidden command as which the program starts itself, see [Serve].
const ServerCommand = "bench-server"

// serverSettings is what a server process is told.
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

// process is a server process.
type process struct {
	*part.Process
	said chan answer
}

// patience is how long a server may take to recover a large store.
const patience = 5 * time.Minute

// startProcess starts this program as a server, waits until it serves and returns its port.
func startProcess(ctx context.Context, s serverSettings) (*process, int, error) {
	p := &process{said: make(chan answer, 1)}
	complaints := &tail{}
	var err error
	p.Process, err = part.Start(part.Config{Command: ServerCommand, Settings: s, Log: complaints, Line: func(line []byte) {
		var word answer
		if json.Unmarshal(line, &word) == nil {
			select {
			case p.said <- word:
			default: // nobody has waited for the one before
			}
		}
	}})
	if err != nil {
		return nil, s.Port, err
	}
	word, err := p.answer(ctx)
	if err != nil {
		p.kill()
		if said := complaints.last(); said != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return nil, s.Port, fmt.Errorf("start the server process: %w", err)
	}
	return p, word.Port, nil
}

// ask tells it something and waits for its answer. After an error it is to be killed.
func (p *process) ask(ctx context.Context, line string) error {
	p.Say(line)
	_, err := p.answer(ctx)
	return err
}

func (p *process) answer(ctx context.Context) (answer, error) {
	select {
	case word := <-p.said:
		if word.Error != "" {
			return word, errors.New(word.Error)
		}
		return word, nil
	case <-p.Ended():
		return answer{}, errors.New("it has ended")
	case <-time.After(patience):
		return answer{}, fmt.Errorf("no answer after %v", patience)
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// kill ends it and waits for that.
func (p *process) kill() {
	if p != nil {
		p.Kill()
	}
}

// stop lets it end in good order and waits for that.
func (p *process) stop() {
	if p != nil {
		p.Leave()
		<-p.Ended()
	}
}

// Serve is a server process: nats-server with JetStream on loopback, for whoever knows the token. It ends when ctx does, or the standard
// input.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer) error {
	var s serverSettings
	words := make(chan string)
	ctx, err := part.Settings(ctx, in, &s, func(word string) { words <- word })
	if err == nil && (s.Dir == "" || s.Token == "") {
		err = errors.New("no directory or no token in the settings")
	}
	if err != nil {
		return fmt.Errorf("%w: this command is for the use of `guyline bench` alone", err)
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
	var p profile
	for {
		select {
		case <-ctx.Done():
			return nil
		case word := <-words:
			var a answer
			if file, ok := strings.CutPrefix(word, profileWord); !ok {
				a.Error = "it does not know the word"
			} else if err := p.turn(file); err != nil {
				a.Error = err.Error()
			}
			_ = say.Encode(a) // whoever asked may be gone
		}
	}
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
