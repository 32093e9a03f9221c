package consumer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/stream"
)

const (
	// shortestPull is how long the server keeps a pull that is only to look: long enough for a busy server to answer. Every pull
	// expires: one that does not would wait for ever behind a full MaxAckPending (server v2.15.3, also with no_wait).
	shortestPull = 50 * time.Millisecond
	// longestPull is how long the server keeps a pull that waits for a report, or AckWait/4 if that is less.
	longestPull = time.Second
	// overdue is how much later than its expiry a pull's answer may come. After as long again it is taken for lost, as when the
	// consumer's leader has changed.
	overdue = 2 * time.Second
)

// puller asks one queue for one report at a time, over one subscription for as long as it lives. It is used by one
// goroutine.
//
// The pulls of nats.go's jetstream package (v1.55.0) are not used, for two reasons. They stop listening when an
// answer is late, and what the server delivers then is lost until AckWait and costs an attempt; here no pull is sent while
// another may still be answered, and a late report is taken by the next pull. And they read an empty body with a Status
// header as a word of the server, although only the lack of a reply subject tells that; any publisher can send one.
type puller struct {
	nc         *nats.Conn
	sub        *nats.Subscription
	answers    chan *nats.Msg // not NextMsg, which makes an error of a report with an empty body and the Status 503
	inbox      string         // pulls are answered on inbox.<number>; reports come under their own subject
	next       string         // subject of the pull request
	longest    time.Duration
	number     uint64               // of the last pull
	open       map[string]time.Time // pulls that are not answered yet, by number: when they were sent
	reconnects uint64
}

func (c *Consumer) newPuller(queue string) (*puller, error) {
	nc := c.js.Conn()
	inbox := nc.NewInbox()
	answers := make(chan *nats.Msg, 64) // one pull at a time, and what earlier ones may still bring
	sub, err := nc.ChanSubscribe(inbox+".*", answers)
	if err != nil {
		return nil, fmt.Errorf("pull from %s: %w", queue, err)
	}
	return &puller{
		nc: nc, sub: sub, answers: answers, inbox: inbox, next: jsapi.Prefix(c.js) + "CONSUMER.MSG.NEXT." + queue + "." + stream.Consumer,
		longest: min(longestPull, c.cfg.Queues.AckWait/4), open: map[string]time.Time{},
	}, nil
}

// pull returns a report, or nil if the queue has none for now, and a time before which the server has not delivered it. With wait the
// server waits for one. An error says that the server refused or did not answer. It is not cut by a stop: a report on its way
// would be lost.
func (p *puller) pull(wait bool) (*nats.Msg, time.Time, error) {
	p.forget()
	if len(p.answers) == 0 && len(p.open) == 0 {
		if err := p.ask(wait); err != nil {
			return nil, time.Time{}, err
		}
	}
	m := p.receive(p.longest + overdue)
	if m == nil {
		return nil, time.Time{}, nats.ErrTimeout
	}
	if delivered(m) {
		return m, p.answered(), nil
	}
	delete(p.open, m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	switch status := m.Header.Get("Status"); status {
	case "404", "408": // no messages, request timeout
		return nil, time.Time{}, nil
	case "503":
		return nil, time.Time{}, nats.ErrNoResponders
	default:
		return nil, time.Time{}, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
	}
}

func (p *puller) ask(wait bool) error {
	expires := shortestPull
	if wait {
		expires = p.longest
	}
	p.number++
	number := strconv.FormatUint(p.number, 10)
	p.open[number] = time.Now()
	return p.nc.PublishRequest(p.next, p.inbox+"."+number, fmt.Appendf(nil, `{"batch": 1, "expires": %d}`, expires.Nanoseconds()))
}

// answered closes the oldest open pull and returns when it was sent. A report that no open pull can have brought comes
// from one that was forgotten.
func (p *puller) answered() time.Time {
	number, sent := "", time.Now().Add(-p.longest-2*overdue)
	for n, at := range p.open {
		if number == "" || at.Before(sent) {
			number, sent = n, at
		}
	}
	delete(p.open, number)
	return sent
}

// forget closes the pulls that will not be answered any more.
func (p *puller) forget() {
	if n := p.nc.Stats().Reconnects; n != p.reconnects { // the server has forgotten them with the old connection
		p.reconnects = n
		clear(p.open)
	}
	for n, at := range p.open {
		if time.Since(at) > p.longest+2*overdue {
			delete(p.open, n)
		}
	}
}

// receive takes what arrives within a time, or returns nil.
func (p *puller) receive(patience time.Duration) *nats.Msg {
	select {
	case m := <-p.answers:
		return m
	case <-time.After(patience):
		return nil
	}
}

// close gives up the subscription and returns what had arrived without being taken.
func (p *puller) close() (left []*nats.Msg) {
	for {
		m := p.receive(time.Millisecond)
		if m == nil {
			break
		}
		if delivered(m) {
			left = append(left, m)
		}
	}
	_ = p.sub.Unsubscribe()
	return left
}

// delivered tells a report from a word of the server: only the server can give a message such a reply subject.
func delivered(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }
