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

// mostRounds is how often a sender looks for more before somebody else may take its place: it has its own work to do.
const mostRounds = 16

// Publisher publishes over one connection. It is safe for concurrent use.
type Publisher struct {
	nc *nats.Conn

	mu      sync.Mutex
	queue   []message
	sending bool   // somebody sends, and will look once more
	sender  uint64 // the number of who that is
	rounds  int    // that it has made
}

type message struct {
	*nats.Msg
	failed func(error)
}

// New makes a publisher for a connection.
func New(nc *nats.Conn) *Publisher { return &Publisher{nc: nc} }

// Publish hands a message to the connection, or to whoever is doing that at the moment, after every goroutine that was ready to run has had
// the chance to add its own. It never waits for others to come. When all calls have returned, all messages are handed over. If the
// connection does not take the message, failed is called, which must not publish.
func (p *Publisher) Publish(m *nats.Msg, failed func(error)) {
	me, sends := p.add(message{m, failed})
	for sends {
		runtime.Gosched()
		all := p.take(me)
		sends = len(all) > 0
		for _, m := range all {
			if err := p.nc.PublishMsg(m.Msg); err != nil {
				m.failed(err)
			}
		}
	}
}

// add puts a message into the queue. It returns the caller's number if nobody else is there to send it, or has been for long enough.
func (p *Publisher) add(m message) (me uint64, sends bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, m)
	if p.sending && p.rounds < mostRounds {
		return 0, false
	}
	p.sending, p.rounds = true, 0
	p.sender++
	return p.sender, true
}

// take is what waits to be sent. If nothing does, or somebody else has taken the caller's place, the caller has done its duty.
func (p *Publisher) take(me uint64) []message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sender != me {
		return nil
	}
	all := p.queue
	p.queue = nil
	p.sending, p.rounds = len(all) > 0, p.rounds+1
	return all
}
