package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/stream"
)

// session is a connection to the server, given or embedded, and the rooms on it.
type session struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *embedded.Store // nil with GUYLINE_NATS_URL
	queues  *stream.Queues
	ledger  *keyvalue.Ledger
	sites   *keyvalue.Sites
	trail   *audit.Trail
	letters *dlq.Queue
	finder  *fate.Finder
}

// access says what a command may do to the store.
type access int

const (
	reads  access = iota // an embedded store must exist
	writes               // an embedded store is created and set up if need be
	serves               // as writes, and others may connect to it
	setsUp               // as writes, and a given server is set up too
)

// open connects and opens the rooms. Close the session when done.
func (a *app) open(ctx context.Context, as access) (_ *session, err error) {
	s, err := a.connect(ctx, as)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
			err = hintJetStream(err)
		}
	}()
	cfg := a.cfg.Consumer(version).Queues
	if as == setsUp || as != reads && s.store != nil && !s.store.Remote() {
		if err := consumer.Setup(ctx, s.js, cfg); err != nil {
			return nil, err
		}
		if err := proof.Setup(ctx, s.js, cfg.Replicas); err != nil {
			return nil, err
		}
		if err := a.keepLedger(ctx, s.js, as); err != nil {
			return nil, err
		}
	}
	s.queues, s.trail = stream.New(s.js, cfg), audit.New(s.js)
	if s.ledger, err = keyvalue.OpenLedger(ctx, s.js); err == nil {
		s.sites, err = keyvalue.OpenSites(ctx, s.js)
	}
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return nil, fmt.Errorf("%w: %w", err, stream.ErrNotSetUp)
	case err != nil:
		return nil, err
	}
	s.letters = dlq.New(s.js, s.queues, s.ledger, s.trail, a.cfg.ReplayMax)
	s.finder = fate.New(s.queues, s.letters, s.ledger, s.trail)
	return s, nil
}

// hintJetStream adds what a server lacks that nobody answers on.
func hintJetStream(err error) error {
	for _, none := range []error{nats.ErrNoResponders, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount} {
		if errors.Is(err, none) {
			return fmt.Errorf("%w: the server has no JetStream: start it with `nats-server -js`, or enable JetStream for this user's account", err)
		}
	}
	return err
}

// keepLedger has the ledger remember for as long as GUYLINE_LEDGER_TTL says. What it holds it forgets only if a person agrees, in
// `guyline setup`.
func (a *app) keepLedger(ctx context.Context, js jetstream.JetStream, as access) error {
	ttl := a.cfg.LedgerTTL
	if !ttl.Set {
		return nil
	}
	if ttl.Kept > 0 {
		if signed, err := proof.HasCheckpoint(ctx, js); err != nil {
			return err
		} else if signed {
			return usageError{errors.New("GUYLINE_LEDGER_TTL: the ledger is signed (`guyline audit checkpoint`), and what it forgets would be missing; see docs/audit.md")}
		}
	}
	err := keyvalue.KeepLedger(ctx, js, ttl.Kept, false)
	if !errors.Is(err, keyvalue.ErrForgets) {
		return err
	}
	question := "GUYLINE_LEDGER_TTL: " + err.Error() + ", and what is published again is worked again"
	if as != setsUp {
		return usageError{errors.New(question + ": `guyline setup --yes` does that")}
	}
	if err := a.confirm(ctx, a.forget, question); err != nil {
		return err
	}
	return keyvalue.KeepLedger(ctx, js, ttl.Kept, true)
}

// asyncPatience bounds how long an acknowledgement that nobody waits for is remembered: one that is lost would be for ever.
const asyncPatience = 30 * time.Second

// connect connects, and opens no room: what is there is not known yet. Options come after the usual ones and win.
func (a *app) connect(ctx context.Context, as access, opts ...nats.Option) (_ *session, err error) {
	s := &session{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	opts = append(a.connOptions(), opts...)
	if len(a.cfg.Servers()) > 0 {
		if s.nc, err = a.dial(opts...); err != nil {
			return nil, err
		}
	} else {
		if s.store, err = embedded.Open(ctx, a.cfg.Embedded(as != reads, as == serves, a.log)); err != nil {
			switch {
			case errors.Is(err, embedded.ErrNoStore):
				err = fmt.Errorf("%w: `guyline run` or `guyline publish` makes one, GUYLINE_DATA_DIR names another", err)
			case errors.Is(err, embedded.ErrDirectory):
				err = usageError{fmt.Errorf("GUYLINE_DATA_DIR: %w", err)}
			}
			return nil, err
		}
		if s.nc, err = s.store.Connect(opts...); err != nil {
			return nil, fmt.Errorf("connect to the store in %s: %w", a.cfg.DataDir, err)
		}
	}
	if s.js, err = jetstream.New(s.nc, jetstream.WithPublishAsyncTimeout(asyncPatience)); err != nil {
		return nil, err
	}
	return s, nil
}

// dial connects to GUYLINE_NATS_URL.
func (a *app) dial(opts ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(strings.Join(a.cfg.Servers(), ","), opts...)
	if err != nil {
		ask := "is the server running, and is the address right?"
		if errors.Is(err, nats.ErrAuthorization) {
			ask = "the server runs, but does not know this user or token"
		}
		return nil, fmt.Errorf("connect to %s (GUYLINE_NATS_URL): %w: %s", a.cfg.Redacted(), err, ask)
	}
	return nc, nil
}

// proof is the trail, the ledger and the letters, as something to be proved.
func (s *session) proof() *proof.Log { return proof.New(s.js, s.ledger, s.letters) }

// Close closes the connection and then the store, if this process holds it.
func (s *session) Close() {
	if s.nc != nil {
		s.nc.Close()
	}
	if s.store != nil {
		s.store.Close()
	}
}

// connOptions: a publish fails at once while there is no connection, as what is buffered then could settle a
// message that somebody else has by the time it is sent.
func (a *app) connOptions() []nats.Option {
	return []nats.Option{
		nats.Name("guyline/" + version),
		nats.Timeout(5 * time.Second),
		nats.PingInterval(10 * time.Second),   // a frozen connection is noticed within half a minute
		nats.FlusherTimeout(10 * time.Second), // and holds up nobody who wants to send for longer; by default it is a minute
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { a.log.Warn("the server reports", "err", err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				a.log.Warn("disconnected from the server, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { a.log.Info("reconnected to the server") }),
	}
}

// actor is the person behind an operator's act: OS user and host.
func actor() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
