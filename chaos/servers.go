package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/part"
	"github.com/guyline/guyline/stream"
)

// servers is the server or cluster of a run.
type servers struct {
	children *children
	nodes    []*node

	mu   sync.Mutex
	full bool
}

// node is one server, with the proxy that its clients must use.
type node struct {
	url   *url.URL // past the proxy
	proxy *proxy

	settings serverSettings // of a server of ours
	logFile  *os.File
	process  *part.Process
}

// startServers starts them and waits until they serve.
func startServers(ctx context.Context, cfg Config, dir string, c *children) (_ *servers, err error) {
	s := &servers{children: c}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	ports, err := freePorts(2 * cfg.Servers)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Servers {
		n := &node{
			url:      &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", ports[2*i])},
			settings: serverSettings{Name: fmt.Sprint("server-", i+1), Port: ports[2*i], Dir: filepath.Join(dir, fmt.Sprint("server-", i+1)), Sync: cfg.Sync},
		}
		if cfg.Servers > 1 {
			n.settings.Routes = ports[2*i+1]
			for j := range cfg.Servers {
				n.settings.Peers = append(n.settings.Peers, ports[2*j+1])
			}
		}
		s.nodes = append(s.nodes, n)
		if n.logFile, err = logFile(n.settings.Dir); err != nil {
			return s, err
		}
		if n.proxy, err = newProxy(n.url.Host); err != nil {
			return s, err
		}
	}
	for _, n := range s.nodes {
		if err := s.start(ctx, n); err != nil {
			return s, err
		}
	}
	return s, nil
}

// useServers puts proxies before servers that run already.
func useServers(cfg Config) (*servers, error) {
	s := &servers{}
	for _, address := range cfg.URLs {
		u, err := url.Parse(address)
		if err != nil { // which Validate has seen
			return s, err
		}
		p, err := newProxy(u.Host)
		if err != nil {
			s.close()
			return s, err
		}
		s.nodes = append(s.nodes, &node{url: u, proxy: p})
	}
	return s, nil
}

// start starts a server and waits until it serves, for long: a machine may be busy.
func (s *servers) start(ctx context.Context, n *node) error {
	ready := make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	p, err := s.children.start(part.Config{Command: ServerCommand, Settings: n.settings, Log: n.logFile, Line: func([]byte) { once() }})
	if err != nil {
		return err
	}
	s.mu.Lock()
	n.process = p
	s.mu.Unlock()
	select {
	case <-ready:
	case <-p.Ended():
		return fmt.Errorf("%s ended at its start: %s", n.settings.Name, lastLine(n.logFile.Name()))
	case <-time.After(time.Minute):
		return fmt.Errorf("%s does not serve after a minute: see %s", n.settings.Name, n.logFile.Name())
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		p.Say(full)
	}
	return nil
}

// fill makes every server's store full, or gives it room again.
func (s *servers) fill(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = on
	word := room
	if on {
		word = full
	}
	for _, n := range s.nodes {
		n.process.Say(word) // one that is away is told when it starts
	}
}

// urls are the addresses of the proxies.
func (s *servers) urls() (urls []string) {
	for _, n := range s.nodes {
		u := *n.url
		u.Host = n.proxy.address()
		urls = append(urls, u.String())
	}
	return urls
}

// connect connects past the proxies, for whoever injects and checks.
func (s *servers) connect() (jetstream.JetStream, error) {
	var urls []string
	for _, n := range s.nodes {
		urls = append(urls, n.url.String())
	}
	nc, err := nats.Connect(strings.Join(urls, ","), clientOptions()...)
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}

// clientOptions are those of the harness itself: it never gives up, and buffers nothing while it is cut off.
func clientOptions() []nats.Option {
	return []nats.Option{
		nats.Name("chaos"), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(2 * time.Second),
		nats.PingInterval(5 * time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.IgnoreDiscoveredServers(), // else clients would learn the way past the proxies
	}
}

// led finds the server that leads a stream or its consumer; alone, it leads everything.
func (s *servers) led(ctx context.Context, js jetstream.JetStream, t Target) (*node, error) {
	if len(s.nodes) == 1 || t.Stream == "" {
		return s.nodes[min(t.Number, len(s.nodes)-1)], nil
	}
	info, err := js.Stream(ctx, t.Stream)
	if err != nil {
		return nil, err
	}
	cluster := info.CachedInfo().Cluster
	if t.Consumer {
		c, err := info.Consumer(ctx, stream.Consumer)
		if err != nil {
			return nil, err
		}
		cluster = c.CachedInfo().Cluster
	}
	for _, n := range s.nodes {
		if cluster != nil && n.settings.Name == cluster.Leader {
			return n, nil
		}
	}
	return nil, errors.New("there is no leader now")
}

// close kills all and waits.
func (s *servers) close() {
	for _, n := range s.nodes {
		if n.process != nil {
			n.process.Kill()
		}
		if n.proxy != nil {
			n.proxy.close()
		}
		if n.logFile != nil {
			n.logFile.Close()
		}
	}
}

// freePorts finds ports that a server can have again after it was away: below those that systems give to connections.
func freePorts(n int) (ports []int, err error) {
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		defer l.Close() // all are held until all are found
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free loopback ports from 20000 to 31999")
}
