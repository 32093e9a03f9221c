package consumer

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/stream"
)

const (
	// longestPull is how long the server keeps a pull that waits for a report.
	longestPull = time.Second
	// forgotten is how long an answer may be overdue before the pull is taken for lost, as after a restart of the server.
	forgotten = 2 * time.Second
)

// puller asks one queue for one report at a time, over one subscription for as long as it lives. It is used by one
// goroutine.
//
// The pulls of nats.go's jetstream package (v1.55.0) are not used, for two reasons. They stop listening when an
// answer is late, and what the server delivers then is lost until AckWait and costs an attempt; here a late report is taken
// by the next pull. And they read an empty body with a Status header as a word of the server, although only the lack of a
// reply subject tells that; any publisher can send one.
type puller struct {
	nc    *nats.Conn
	sub   *nats.Subscription
	next  string    // subject of the pull request
	until time.Time // when the open pull's answer is overdue; zero if none is open
}

func (c *Consumer) newPuller(queue string) (*puller, error) {
	nc := c.js.Conn()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("pull from %s: %w", queue, err)
	}
	return &puller{nc: nc, sub: sub, next: jsapi.Prefix(c.js) + "CONSUMER.MSG.NEXT." + queue + "." + stream.Consumer}, nil
}

// pull returns a report, or nil if the queue has none for now. With wait the server waits up to longestPull for one. An error says
// that the server refused or did not answer. It is not cut by a stop: a report on its way would be lost.
func (p *puller) pull(wait bool) (*nats.Msg, error) {
	if p.until.IsZero() {
		ask := struct {
			Batch   int           `json:"batch"`
			Expires time.Duration `json:"expires,omitempty"`
			NoWait  bool          `json:"no_wait,omitempty"`
		}{Batch: 1, NoWait: !wait}
		if wait {
			ask.Expires = longestPull
		}
		body, err := json.Marshal(ask)
		if err != nil {
			return nil, err
		}
		if err := p.nc.PublishRequest(p.next, p.sub.Subject, body); err != nil {
			return nil, err
		}
		p.until = time.Now().Add(ask.Expires + forgotten)
	}
	return p.answer(time.Until(p.until))
}

// answer waits for the open pull's answer. A pull that stays unanswered is given up, but not what it may still bring.
func (p *puller) answer(patience time.Duration) (*nats.Msg, error) {
	m, err := p.sub.NextMsg(max(patience, time.Millisecond))
	p.until = time.Time{}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(m.Reply, "$JS.ACK.") { // only the server can say so: it is the reply subject
		return m, nil
	}
	switch status := m.Header.Get("Status"); status {
	case "404", "408": // no messages, request timeout
		return nil, nil
	case "503":
		return nil, nats.ErrNoResponders
	default:
		return nil, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
	}
}

// close gives up the subscription and returns what had arrived without being taken.
func (p *puller) close() (left []*nats.Msg) {
	for {
		m, err := p.sub.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		if strings.HasPrefix(m.Reply, "$JS.ACK.") {
			left = append(left, m)
		}
	}
	_ = p.sub.Unsubscribe()
	return left
}
