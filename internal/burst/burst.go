// Package burst publishes what many goroutines have to say in few writes to the network.
//
// A connection of nats.go writes out what has been published as soon as its own goroutine runs, which is when the publisher waits for
// something (v1.55.0). Where many goroutines each publish one message and wait, that is a system call for each message, here and again in
// the server. docs/performance.md has what a burst saves.
package burst

import (
	"runtime"
	"sync"

	"github.com/nats-io/nats.go"
)

// Publisher publishes over one connection. It is safe for concurrent use.
type Publisher struct {
	nc *nats.Conn

	mu      sync.Mutex
	sending bool // somebody sends, and will look once more
	queue   []message
}

type message struct {
	*nats.Msg
	failed func(error)
}

// New makes a publisher for a connection.
func New(nc *nats.Conn) *Publisher { return &Publisher{nc: nc} }

// Publish hands a message to the connection, or to whoever is doing that at the moment, after every goroutine that was ready to run has had
// the chance to add its own. It never waits for others to come. If the connection does not take the message, failed is called, which must
// not publish.
func (p *Publisher) Publish(m *nats.Msg, failed func(error)) {
	p.mu.Lock()
	p.queue = append(p.queue, message{m, failed})
	first := !p.sending
	p.sending = true
	p.mu.Unlock()
	if !first {
		return
	}
	for {
		runtime.Gosched()
		all := p.take()
		if len(all) == 0 {
			return
		}
		for _, m := range all {
			if err := p.nc.PublishMsg(m.Msg); err != nil {
				m.failed(err)
			}
		}
	}
}

// take is what waits to be sent. If nothing does, the caller has done its duty.
func (p *Publisher) take() []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.queue
	p.queue = nil
	p.sending = len(all) > 0
	return all
}
