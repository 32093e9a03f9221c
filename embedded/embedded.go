// Package embedded is the ground Guyline stands on when no NATS server is named: a JetStream server
// inside the process, with its data in one directory.
//
// # One directory, one holder
//
// A JetStream store does not lock itself; two servers on one directory would ruin it. So the
// directory has a lock, and the lock is the truth. [Open] tries it first:
//
//   - Got it: this process is the holder. It opens the store in process. Unless it was asked to
//     listen, nobody else can connect; that is right for a command that is done in a moment.
//   - Held, and the holder listens: the store is used over the holder's loopback address.
//   - Held, and nobody answers: [Open] asks both questions again for up to 10 seconds, since most
//     holders are short commands, and then fails with [ErrHeld], naming the holder's pid.
//
// The kernel drops the lock when its process dies, however it dies. What a dead holder leaves
// behind is therefore only files, and they are never believed on their own.
//
// # The directory
//
//	guyline-data/               mode 0700
//	  guyline.lock              {"pid":4711,"start":"9f86d081884c7d65"}, empty between holders
//	  nats.url                  nats://9f86d081884c7d65d4...@127.0.0.1:4222, while the holder listens
//	  jetstream/                the server's own
//
// Every holder picks a random start id of 16 hex digits and writes it into the lock file. A holder
// that listens also picks a token, the start id followed by 32 random bytes in hex, and puts it
// into nats.url. Both files have mode 0600, and the server refuses whoever does not know the
// token, so other users of the machine are kept out. nats.url has no line end; it can be used as
// it is:
//
//	nats --server "$(cat guyline-data/nats.url)" stream ls
//
// An address is used only if its token begins with the start id in the lock file, and if the server
// found there carries that start id in its name, "guyline-9f86d081884c7d65". The second check is
// for the instant between a new holder's taking the lock and its writing the lock file, when both
// files still tell of a dead holder, whose port a stranger may have by now.
//
// The port is 4222, or the next free one.
//
// # Durability
//
// Each write is synced to the disk before it is acknowledged; an acknowledged report survives a
// power cut. [Config.LazySync] trades that away for speed.
//
// The server forgets a stream whose description it cannot read, and would let a new, empty one
// take its place. An empty ledger would have every report worked twice, so [Open] fails instead if
// any stream with messages on the disk did not come back.
//
// A stream's size limit may exceed the disk: the limit bounds the queue, it reserves nothing. When
// the disk is full the server stops acknowledging, logs "no space left on device", and keeps
// refusing writes to that stream until the store is opened again. What was acknowledged is safe.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

var (
	// ErrNoStore means that the directory holds no store and none was to be created.
	ErrNoStore = errors.New("no store")

	// ErrDirectory means that there can be no store there: it is no directory, or this user may not make or read it.
	ErrDirectory = errors.New("it must be a directory")

	// ErrHeld means that another process holds the store and it cannot be shared.
	ErrHeld = errors.New("held by another process")
)

// Config says which store to open and what for.
type Config struct {
	// Dir is the data directory, made with mode 0700 if it is missing and Create is set.
	Dir string

	// Create makes an empty store where there is none. Without it that is ErrNoStore.
	Create bool

	// Listen lets other processes connect over loopback while this one holds the store. It is for
	// the process that stays: a store somebody else listens on is then ErrHeld, at once.
	Listen bool

	// LazySync syncs to the disk every two minutes, not on every write. A power cut or a crash of
	// the machine can then take acknowledged messages with it; a crash of the process cannot. It
	// counts for the holder; over a holder's address, the holder's choice counts.
	LazySync bool

	// Log gets what the server has to say: its errors as warnings, the rest at debug level.
	// Nil means nowhere.
	Log *slog.Logger
}

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	dir   string
	start string // the holder's start id
	url   string // empty: the holder does not listen

	// Set if this process is the holder.
	lock   *flock.Flock
	server *server.Server

	closing  sync.Once
	closeErr error
}

// Open opens the store, in process or over the address of the process that holds it. It waits up
// to 10 seconds, or until ctx ends, for the lock or an address that answers.
//
// Errors: [ErrNoStore], [ErrDirectory], [ErrHeld], and one line for whatever is wrong with the directory.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := prepare(cfg.Dir, cfg.Create); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second,
		errors.New("still so after 10s; wait until it is done, or stop it"))
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()

	lock := flock.New(lockPath(cfg.Dir))
	for {
		locked, err := lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("store %s: take its lock: %w; the directory must be writable", cfg.Dir, bare(err))
		}
		if locked {
			return hold(cfg, lock)
		}
		who := readHolder(cfg.Dir)
		s, unreachable := join(cfg.Dir, who)
		switch {
		case s != nil && cfg.Listen:
			return nil, fmt.Errorf("store %s: %w (%s), which runs and listens; stop it, or use another directory",
				cfg.Dir, ErrHeld, who)
		case s != nil:
			return s, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			why := context.Cause(ctx)
			if unreachable != nil {
				why = fmt.Errorf("its address does not answer (%w): %w", unreachable, why)
			}
			return nil, fmt.Errorf("store %s: %w (%s): %w", cfg.Dir, ErrHeld, who, why)
		}
	}
}

// hold opens the store in process, under a lock just taken.
func hold(cfg Config, lock *flock.Flock) (_ *Store, err error) {
	s := &Store{dir: cfg.Dir, start: randomHex(startBytes), lock: lock}
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("store %s: %w", cfg.Dir, err)
		}
	}()
	if err := takeOver(cfg.Dir, holder{PID: os.Getpid(), Start: s.start}); err != nil {
		return nil, err
	}
	token := ""
	if cfg.Listen {
		token = s.start + randomHex(secretBytes)
	}
	if s.server, err = startServer(cfg, s.start, token); err != nil {
		return nil, err
	}
	if err := checkStreams(s.server, cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Listen {
		s.url = addressOf(s.server, token)
		if err := writeURL(cfg.Dir, s.url); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Remote reports whether another process holds the store.
func (s *Store) Remote() bool { return s.lock == nil }

// URL returns the loopback address where other processes reach the store, as it stands in nats.url.
// The token in it is a secret. It is empty if this process holds the store and does not listen.
func (s *Store) URL() string { return s.url }

// Close gives the store up. Close your own connections first: they are cut, or, if they reconnect,
// left trying. On a store held by another process Close does nothing, and so does a second Close.
//
// The order: nats.url is removed, so that no newcomer meets a stopping server; the server shuts down,
// cuts its clients and writes out what it has; the lock file is emptied and the lock released, so that
// the next holder finds the store at rest.
func (s *Store) Close() error {
	if s.Remote() {
		return nil
	}
	s.closing.Do(func() {
		err := removeURL(s.dir)
		if s.server != nil {
			s.server.Shutdown()
			s.server.WaitForShutdown()
		}
		if err = errors.Join(err, release(s.dir, s.lock)); err != nil {
			s.closeErr = fmt.Errorf("store %s: close: %w", s.dir, err)
		}
	})
	return s.closeErr
}

// Connect returns a new connection to the store, in process or over the holder's address. The caller
// closes it. Options are the caller's; where to connect, and with which token, is settled here.
func (s *Store) Connect(opts ...nats.Option) (*nats.Conn, error) {
	nc, err := s.connect(opts...)
	if err != nil {
		return nil, fmt.Errorf("store %s: connect: %w", s.dir, err)
	}
	return nc, nil
}
