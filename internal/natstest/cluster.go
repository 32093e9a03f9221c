package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is three JetStream servers for one test, in this process, on loopback ports. Its methods are called from the test's
// goroutine.
type Cluster struct {
	nodes  [3]*node
	routes []*url.URL
}

type node struct {
	name         string
	dir          string
	port, routes int
	running      *server.Server // nil while stopped
}

// StartCluster starts three servers with empty stores and waits until they take streams of three replicas. They stop when t ends.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	for i := range c.nodes {
		c.nodes[i] = &node{name: fmt.Sprint("node-", i+1), dir: t.TempDir(), port: reserve(t), routes: reserve(t)}
		c.routes = append(c.routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.nodes[i].routes))})
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.stop()
		}
	})
	for _, n := range c.nodes {
		c.start(t, n)
	}
	// A meta leader is not enough: it places streams only on servers that it has heard of.
	js := c.JetStream(t)
	Eventually(t, "the cluster to take a stream of three replicas", func() bool {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "READY", Replicas: 3})
		return err == nil
	})
	if err := js.DeleteStream(t.Context(), "READY"); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return c
}

// URL returns the addresses of all servers, comma-separated.
func (c *Cluster) URL() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, "nats://127.0.0.1:"+strconv.Itoa(n.port))
	}
	return strings.Join(all, ",")
}

// Conn returns a new connection to one of the servers, which finds another when that stops. It is otherwise as [Server.Conn].
func (c *Cluster) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, c.URL(), opts)
}

// JetStream returns a JetStream context over a connection of its own, made by [Cluster.Conn].
func (c *Cluster) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.Conn(t))
	if err != nil {
		t.Fatalf("natstest: jetstream context: %v", err)
	}
	return js
}

// StreamLeader waits until a stream has a leader and returns its name.
func (c *Cluster) StreamLeader(t testing.TB, stream string) (name string) {
	t.Helper()
	return c.leader(t, "a leader of "+stream, func(s *server.Server) bool { return s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) })
}

// ConsumerLeader waits until a consumer has a leader and returns its name.
func (c *Cluster) ConsumerLeader(t testing.TB, stream, consumer string) (name string) {
	t.Helper()
	return c.leader(t, "a leader of "+consumer, func(s *server.Server) bool {
		return s.JetStreamIsConsumerLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream, consumer)
	})
}

func (c *Cluster) leader(t testing.TB, what string, leads func(*server.Server) bool) (name string) {
	t.Helper()
	Eventually(t, what, func() bool {
		for _, n := range c.nodes {
			if n.running != nil && leads(n.running) {
				name = n.name
				return true
			}
		}
		return false
	})
	return name
}

// StepDown makes the leader of a stream give up its office.
func (c *Cluster) StepDown(t testing.TB, stream string) {
	t.Helper()
	name := c.StreamLeader(t, stream)
	if err := c.node(t, name).running.JetStreamStepdownStream(server.DEFAULT_GLOBAL_ACCOUNT, stream); err != nil {
		t.Fatalf("natstest: step down of %s: %v", stream, err)
	}
}

// Stop shuts one server down, by its name, and waits until it is gone.
func (c *Cluster) Stop(t testing.TB, name string) {
	t.Helper()
	c.node(t, name).stop()
}

// Restart starts a stopped server again, with the same store on the same ports.
func (c *Cluster) Restart(t testing.TB, name string) {
	t.Helper()
	c.start(t, c.node(t, name))
}

func (c *Cluster) node(t testing.TB, name string) *node {
	t.Helper()
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	t.Fatalf("natstest: there is no server %q", name)
	return nil
}

func (c *Cluster) start(t testing.TB, n *node) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		ServerName:        n.name,
		Host:              "127.0.0.1",
		Port:              n.port,
		NoSigs:            true,
		NoLog:             true,
		JetStream:         true,
		StoreDir:          n.dir,
		JetStreamMaxStore: 1 << 50,
		Cluster:           server.ClusterOpts{Name: "natstest", Host: "127.0.0.1", Port: n.routes},
		Routes:            c.routes,
	})
	if err != nil {
		t.Fatalf("natstest: new server: %v", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		srv.Shutdown()
		t.Fatalf("natstest: %s does not serve", n.name)
	}
	n.running = srv
}

func (n *node) stop() {
	if n.running != nil {
		n.running.Shutdown()
		n.running.WaitForShutdown()
		n.running = nil
	}
}
