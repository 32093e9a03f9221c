package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/embedded"
)

// Mode says where the server runs that is measured.
type Mode string

const (
	Embedded Mode = "embedded" // in this process, as the product embeds it; connections are pipes in memory
	Separate Mode = "separate" // in a process of its own, over loopback
	Given    Mode = "given"    // somewhere, at Config.URL
)

// Sync says when the server syncs to the disk what it was given.
type Sync string

const (
	Always   Sync = "always"   // before it acknowledges it: an acknowledged write survives a power cut
	Interval Sync = "interval" // every two minutes: it survives the end of the process
)

var (
	// errUnknown says that a number is not to be had: of a given server, or on this system.
	errUnknown = errors.New("unknown")
	// errNotSeparate says that only a server in a process of its own can be killed and restarted.
	errNotSeparate = errors.New("the server is not a process of its own")
)

// Config says where to measure.
type Config struct {
	Mode Mode
	URL  string // of a given server; several are separated by commas
	Dir  string // the store, of an embedded or separate server; empty: a temporary directory that goes with the place
	Sync Sync   // of an embedded or separate server; a given one has its own

	Replicas int // of streams and buckets on a given server; 0 = 1
}

// synced says that the server is known to sync each write.
func (c Config) synced() bool { return c.Mode != Given && c.Sync == Always }

// consumer is what the product's workers run with here: the defaults, everything on.
func (c Config) consumer(workers int, version string) consumer.Config {
	out := consumer.DefaultConfig()
	out.Workers, out.Version, out.SyncedStore = workers, version, c.synced()
	out.Queues.QueueBytes, out.Queues.Replicas = 2<<30, max(1, c.Replicas) // more than a backlog needs
	return out
}

// place is a server to measure on: embedded in this process, a process of its own on loopback, or a given one.
type place struct {
	cfg     Config
	dir     string          // of the store; empty of a given server
	temp    bool            // the directory is removed at the end
	store   *embedded.Store // of Embedded
	process *process        // of Separate; nil while it is killed
	port    int             // of Separate: the same again after a restart
	token   string
}

// openPlace starts the server, or takes the given one as it is. Close the place when done: a process of its own ends with it.
func openPlace(ctx context.Context, cfg Config) (_ *place, err error) {
	p := &place{cfg: cfg, dir: cfg.Dir}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Mode == Given {
		return p, nil
	}
	defer func() {
		if err != nil {
			_ = p.close()
		}
	}()
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "guyline-bench-"); err != nil {
			return nil, err
		}
		p.temp = true
	}
	if cfg.Mode == Embedded {
		p.store, err = embedded.Open(ctx, embedded.Config{Dir: p.dir, Create: true, LazySync: cfg.Sync == Interval})
		return p, err
	}
	p.token = randomToken()
	return p, p.restart(ctx)
}

// Validate checks the settings.
func (c Config) Validate() error {
	switch {
	case c.Mode != Embedded && c.Mode != Separate && c.Mode != Given:
		return fmt.Errorf("the server is %q, allowed are %s, %s and %s", c.Mode, Embedded, Separate, Given)
	case c.Mode == Given && c.URL == "":
		return errors.New("no address of a given server")
	case c.Mode != Given && c.Sync != Always && c.Sync != Interval:
		return fmt.Errorf("the sync is %q, allowed are %s and %s", c.Sync, Always, Interval)
	case c.Mode != Given && c.Replicas > 1:
		return fmt.Errorf("%d replicas need a given cluster", c.Replicas)
	}
	return nil
}

// connect returns a new connection, in process if the server is. The caller closes it.
func (p *place) connect(opts ...nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{
		nats.Name("guyline-bench"), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectBufSize(-1),
	}, opts...)
	switch p.cfg.Mode {
	case Embedded:
		return p.store.Connect(opts...)
	case Given:
		nc, err := nats.Connect(p.cfg.URL, opts...)
		if err != nil {
			return nil, fmt.Errorf("connect to the given server: %w", err)
		}
		return nc, nil
	}
	u := url.URL{Scheme: "nats", User: url.User(p.token), Host: fmt.Sprint("127.0.0.1:", p.port)}
	nc, err := nats.Connect(u.String(), opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to the server process: %w", err)
	}
	return nc, nil
}

// cpu is the processor time used so far by this process and the server's, user and system. It is [errUnknown] for a given server, and
// for a separate one elsewhere than on Linux.
func (p *place) cpu() (time.Duration, error) {
	own, err := ownCPU()
	if err != nil || p.cfg.Mode == Embedded {
		return own, err
	}
	pid, err := p.pid()
	if err != nil {
		return 0, err
	}
	server, err := processCPU(pid)
	return own + server, err
}

// rss is how much memory this process and the server's have resident now, in bytes. An embedded server's is all in client. The error is
// [errUnknown] elsewhere than on Linux; of a given server only client is known.
func (p *place) rss() (client, server int64, err error) { return p.memory(residentNow) }

// peak is as [place.rss], the most since [place.resetPeak].
func (p *place) peak() (client, server int64, err error) { return p.memory(residentPeak) }

func (p *place) memory(of func(pid int) (int64, error)) (client, server int64, err error) {
	if client, err = of(os.Getpid()); err != nil || p.cfg.Mode == Embedded {
		return client, 0, err
	}
	pid, err := p.pid()
	if err != nil {
		return client, 0, err
	}
	server, err = of(pid)
	return client, server, err
}

// resetPeak begins a new peak of both processes.
func (p *place) resetPeak() error {
	err := resetPeak(os.Getpid())
	if pid, unknown := p.pid(); unknown == nil && err == nil {
		err = resetPeak(pid)
	}
	return err
}

// pid is that of the server's process, if it has one that is known.
func (p *place) pid() (int, error) {
	if p.process == nil {
		return 0, errUnknown
	}
	return p.process.PID(), nil
}

// profile writes profiles of the processor time of this process and of a separate server's, until stop is called: NAME.pprof and
// NAME-server.pprof. There can be one at a time.
func (p *place) profile(ctx context.Context, name string) (stop func() error, err error) {
	var own profile
	turn := func(client, server string) error {
		err := own.turn(client)
		if p.process != nil && err == nil {
			err = p.process.ask(ctx, profileWord+server)
		}
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return nil
	}
	return func() error { return turn("", "") }, turn(name+".pprof", name+"-server.pprof")
}

// kill ends a separate server at once, as kill -9 does, and waits until it is gone. Its clients keep trying to reconnect.
func (p *place) kill() error {
	if p.cfg.Mode != Separate {
		return errNotSeparate
	}
	p.process.kill()
	p.process = nil
	return nil
}

// stop ends a separate server in good order, as a first Ctrl-C does, and waits until it is gone.
func (p *place) stop() error {
	if p.cfg.Mode != Separate {
		return errNotSeparate
	}
	p.process.stop()
	p.process = nil
	return nil
}

// restart starts a separate server again, if need be after killing it, on the same port with the same store, and returns when it accepts
// connections.
func (p *place) restart(ctx context.Context) error {
	if p.cfg.Mode != Separate {
		return errNotSeparate
	}
	p.process.kill()
	var err error
	p.process, p.port, err = startProcess(ctx, serverSettings{
		Port: p.port, Token: p.token, Dir: filepath.Join(p.dir, "server"), Sync: p.cfg.Sync == Always,
	})
	return err
}

// close ends the server, if it is ours, and removes its store if that is temporary. Close your connections first.
func (p *place) close() error {
	var err error
	if p.store != nil {
		err = p.store.Close()
	}
	p.process.kill()
	p.process = nil
	if p.temp {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

func randomToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}
