package embedded

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	firstPort = 4222
	lastPort  = 4321
)

func serverName(start string) string { return "guyline-" + start }

// startServer opens the store in cfg.Dir. With a token it listens, on the first free port.
func startServer(cfg Config, start, token string) (*server.Server, error) {
	opts := &server.Options{
		ServerName:             serverName(start),
		Host:                   "127.0.0.1",
		DontListen:             true, // until listen
		Authorization:          token,
		NoSigs:                 true,
		NoLog:                  true,
		DisableJetStreamBanner: true,
		JetStream:              true,
		StoreDir:               cfg.Dir,
		SyncAlways:             !cfg.LazySync,
		// MaxBytes of a stream is checked against this limit when the stream is created and when it
		// is recovered. The default is three quarters of the free disk: a machine with 10 GiB free
		// would refuse the 8 GiB queue. Any smaller number of ours would, one day, refuse to recover
		// a stream.
		JetStreamMaxStore: 1 << 50,
		// Nearly every subject here is used once: the key is part of it, or the place in the queue.
		NoSublistCache: true,
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	log := newServerLog(cfg.Log)
	srv.SetLogger(log, false, false)
	srv.Start() // returns when the server serves, or has failed to
	if cause := log.fatal(); cause != "" {
		err = fmt.Errorf("open the data: %s; repair that, or restore the directory from a backup", cause)
	} else if token != "" {
		err = listen(srv, opts)
	}
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, err
	}
	return srv, nil
}

// listen lets the server accept connections on the first free port. The server takes the port from
// opts, its own options, and has no listener if the port was not to be had.
func listen(srv *server.Server, opts *server.Options) error {
	for opts.Port = firstPort; opts.Port <= lastPort; opts.Port++ {
		if answers(opts.Port) {
			continue
		}
		srv.AcceptLoop(make(chan struct{}))
		if srv.Addr() != nil {
			return nil
		}
	}
	return fmt.Errorf("listen: no free loopback port from %d to %d; free one", firstPort, lastPort)
}

// answers reports whether somebody listens on the loopback port. Trying to bind it would not tell
// everywhere: some systems let a loopback listener hide one that listens on all addresses.
func answers(port int) bool {
	c, err := net.DialTimeout("tcp", hostPort(port), time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func hostPort(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// addressOf returns the address of a listening server.
func addressOf(srv *server.Server, token string) string {
	u := url.URL{Scheme: "nats", User: url.User(token), Host: srv.Addr().String()}
	return u.String()
}
