package consumer

import (
	"cmp"
	"errors"
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

// Bounds of one pull.
const (
	mostPulled = 256 // reports, which are looked up together
	// mostBytes is what a pull stops before, unless it asks for one report only. The server closes a connection that has more than 64 MiB
	// to read (max_pending), and everything that was on its way would be charged an attempt.
	mostBytes = 4 << 20
)

// errReconnected says that the connection has been lost since the last pull, with all that was on its way.
var errReconnected = errors.New("the connection was lost")

// puller asks one queue for reports, over one subscription. It is used by one goroutine.
//
// The pulls of nats.go's jetstream package (v1.55.0) are not used, for two reasons. They stop listening when an
// answer is late, and what the server delivers then is lost until AckWait and costs an attempt; here no pull is sent while
// another may still be answered, and a late report is taken by the next pull. Pulls after one that was given up have another subscription,
// so that a report tells which of them has brought it, and how long ago the server may have delivered it. And they read an empty body with a Status
// header as a word of the server, although only the lack of a reply subject tells that; any publisher can send one.
type puller struct {
	nc         *nats.Conn
	sub        *nats.Subscription
	retired    []*nats.Subscription // of pulls that were given up, oldest first
	answers    chan *nats.Msg       // not NextMsg, which makes an error of a report with an empty body and the Status 503
	fresh      bool                 // no pull was sent that is answered over sub
	inbox      string               // pulls are answered on inbox.<number>; reports come under their own subject
	next       string               // subject of the pull request
	longest    time.Duration
	bytes      int                  // that a pull of several stops before
	number     uint64               // of the last pull
	held       *nats.Msg            // was received, and is for the next call
	open       map[string]*openPull // pulls that may still bring something, by number
	reconnects uint64
}

type openPull struct {
	sub  *nats.Subscription
	sent time.Time
	left int // reports that it may still bring
	room int // bytes for them
}

// mostRetired bounds the subscriptions of pulls that were given up: an outage may be long.
const mostRetired = 8

func (c *Consumer) newPuller(queue string) (*puller, error) {
	nc := c.js.Conn()
	p := &puller{
		nc:      nc,
		answers: make(chan *nats.Msg, 4*mostPulled), // one pull at a time, and what earlier ones may still bring
		next:    jsapi.Prefix(c.js) + "CONSUMER.MSG.NEXT." + queue + "." + stream.Consumer,
		longest: min(longestPull, c.cfg.Queues.AckWait/4), bytes: mostBytes, open: map[string]*openPull{}, reconnects: nc.Stats().Reconnects,
	}
	if err := p.listen(); err != nil {
		return nil, fmt.Errorf("pull from %s: %w", queue, err)
	}
	return p, nil
}

// listen has further pulls answered over another subscription, unless this one has no pull.
func (p *puller) listen() error {
	if p.fresh {
		return nil
	}
	inbox := p.nc.NewInbox()
	sub, err := p.nc.ChanSubscribe(inbox+".*", p.answers)
	if err != nil {
		return err
	}
	if p.sub != nil {
		p.retired = append(p.retired, p.sub)
	}
	if len(p.retired) > mostRetired {
		_ = p.retired[0].Unsubscribe()
		p.retired = p.retired[1:]
	}
	p.sub, p.inbox, p.fresh = sub, inbox, true
	return nil
}

// pull returns up to most reports, none if the queue has none for now, and a time before which the server has not delivered them. It does
// not wait for a second report: more says that others may follow, and the next call goes on with the same pull. With wait the server
// waits for a first one. An error says that the server refused or did not answer. A pull is not cut by a stop: a report on its way would
// be lost.
func (p *puller) pull(most int, wait bool) (reports []*nats.Msg, since time.Time, more bool, err error) {
	if p.forget() {
		return nil, since, false, errReconnected
	}
	m := p.arrived()
	if m == nil && len(p.open) == 0 {
		if err := p.ask(most, wait); err != nil {
			return nil, since, false, err
		}
	}
	if m == nil {
		m = p.receive(p.patience())
	}
	if m == nil {
		return nil, since, false, cmp.Or(p.listen(), nats.ErrTimeout)
	}
	for since = time.Now(); m != nil; m = p.arrived() {
		if !delivered(m) {
			err = p.end(m)
			break
		}
		if len(reports) > 0 && since.IsZero() != (p.pullOf(m) == "") { // a late one counts as lost, and does not make others so
			p.held = m
			break
		}
		if sent := p.brought(m); sent.Before(since) {
			since = sent
		}
		if reports = append(reports, m); len(reports) == most {
			break
		}
	}
	return reports, since, len(p.open) > 0 && err == nil, err
}

func (p *puller) ask(most int, wait bool) error {
	ask := fmt.Sprintf(`{"batch": %d, "no_wait": true, "expires": %d`, most, shortestPull.Nanoseconds())
	if wait {
		ask = fmt.Sprintf(`{"batch": %d, "expires": %d`, most, p.longest.Nanoseconds())
	}
	if most > 1 {
		ask += fmt.Sprintf(`, "max_bytes": %d`, p.bytes)
	}
	p.number++
	p.fresh = false
	number := strconv.FormatUint(p.number, 10)
	p.open[number] = &openPull{p.sub, time.Now(), most, p.bytes}
	err := p.nc.PublishRequest(p.next, p.inbox+"."+number, []byte(ask+"}"))
	if err != nil {
		delete(p.open, number)
	}
	return err
}

// end closes the pull that a word of the server ends, and returns an error if the word is one. The word may overtake reports that the pull
// has brought: those of a replicated stream are sent when the replicas know of it (server v2.15.3). It says how many will not come, and until
// the others have, the pull stays open.
func (p *puller) end(m *nats.Msg) error {
	pull := p.open[numberOf(m)]
	missing, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if pull.left -= missing; err != nil || pull.left <= 0 {
		delete(p.open, numberOf(m))
	}
	switch status, why := m.Header.Get("Status"), m.Header.Get("Description"); {
	case status == "404", status == "408", // no messages, or no more; request timeout
		status == "409" && (why == "Message Size Exceeds MaxBytes" || why == "Batch Completed"): // the next report is for the next pull
		return nil
	case status == "503":
		return nats.ErrNoResponders
	default:
		return fmt.Errorf("the server answers %s %s", status, why)
	}
}

// patience is how long to wait for the answer to the open pull: longest and overdue after it was sent, and then once overdue.
func (p *puller) patience() time.Duration {
	for _, pull := range p.open { // there is one
		if left := time.Until(pull.sent.Add(p.longest + overdue)); left > 0 {
			return left
		}
	}
	return overdue
}

// brought counts a report against the open pull that has brought it and returns when that was sent. A report that no open pull can have
// brought comes from one that was forgotten, however long ago: the time is zero, and the report counts as lost.
func (p *puller) brought(m *nats.Msg) time.Time {
	number := p.pullOf(m)
	if number == "" {
		return time.Time{}
	}
	pull := p.open[number]
	pull.left--
	pull.room -= m.Size()
	if pull.left <= 0 || pull.room == 0 { // the server counts bytes so, too, and says nothing when a pull is filled to the byte (v2.15.3)
		delete(p.open, number)
	}
	return pull.sent
}

// pullOf is the number of the open pull that has brought a report, the oldest one if it could be several, or empty.
func (p *puller) pullOf(m *nats.Msg) (number string) {
	for n, pull := range p.open {
		if pull.sub == m.Sub && (number == "" || pull.sent.Before(p.open[number].sent)) {
			number = n
		}
	}
	return number
}

// forget closes the pulls that will not be answered any more. It reports whether the connection is another one than before.
func (p *puller) forget() (reconnected bool) {
	if n := p.nc.Stats().Reconnects; n != p.reconnects { // the server has forgotten them with the old connection
		reconnected, p.reconnects = true, n
		clear(p.open)
		_ = p.listen() // it may still serve them, if the new connection came soon; an error shows at the next pull
	}
	for n, pull := range p.open {
		if time.Since(pull.sent) > p.longest+2*overdue {
			delete(p.open, n)
		}
	}
	return reconnected
}

// receive takes what arrives within a time, or returns nil.
func (p *puller) receive(patience time.Duration) *nats.Msg {
	if m := p.arrived(); m != nil {
		return m
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		select {
		case m := <-p.answers:
			if p.concerns(m) {
				return m
			}
		case <-over.C:
			return nil
		}
	}
}

// arrived takes what has arrived already, or returns nil.
func (p *puller) arrived() *nats.Msg {
	if m := p.held; m != nil {
		p.held = nil
		return m
	}
	for {
		select {
		case m := <-p.answers:
			if p.concerns(m) {
				return m
			}
		default:
			return nil
		}
	}
}

// concerns reports whether a message says anything: the server also has a word for a pull that has brought all it could and had room
// for more bytes ("409 Batch Completed", v2.15.3), and may have one for a pull that was forgotten.
func (p *puller) concerns(m *nats.Msg) bool { return delivered(m) || p.open[numberOf(m)] != nil }

// numberOf is the number of the pull that a word of the server is about.
func numberOf(m *nats.Msg) string { return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:] }

// close gives up the subscriptions and returns what had arrived without being taken, and a time before which the server has not delivered it; and
// apart from that what came late, which counts as lost.
func (p *puller) close() (left []*nats.Msg, since time.Time, late []*nats.Msg) {
	since = time.Now()
	for {
		m := p.receive(time.Millisecond)
		if m == nil {
			break
		}
		if !delivered(m) {
			continue
		}
		sent := p.brought(m)
		if sent.IsZero() {
			late = append(late, m)
			continue
		}
		left = append(left, m)
		if sent.Before(since) {
			since = sent
		}
	}
	for _, sub := range append(p.retired, p.sub) {
		_ = sub.Unsubscribe()
	}
	return left, since, late
}

// delivered tells a report from a word of the server: only the server can give a message such a reply subject.
func delivered(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }
