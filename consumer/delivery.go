package consumer

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/stream"
)

// delivery is one message in hand, from its arrival to its settlement. Only the methods of this file and of settle.go
// touch the message itself.
type delivery struct {
	stream.Message
	msg   *nats.Msg
	nc    *nats.Conn
	count uint64 // how often the server has delivered this message, from 1
	older bool   // than the queue's consumer: one that was deleted may have delivered it too, and its count is gone
	ours  bool   // nobody but this worker has had it, and the last time it was put off

	troubles uint64 // before it came, see shaken

	upstream string // see source
	logger   *slog.Logger

	forgotten int  // attempts that are not in the count, see inflight.go
	unseen    bool // the last delivery is one of them
	noted     int  // its record there, from 1
	entered   bool // row 4b has found out whether it is a suspect
	ahead     ahead

	stored time.Time // in its queue
	since  time.Time // the server has not delivered it before; both by its clock

	ackWait  time.Duration
	mu       sync.Mutex
	beatAt   time.Time // when the server last knew that somebody works on it
	over     bool      // the last word about it is said
	disowned bool      // see hand.disown

	handlers *handlers
	stuck    <-chan returned // set if the handler outlived its time-out: tells when it returns
	release  func()          // gives the slot back
}

// take takes the reports of a pull in hand and begins to work them. Each calls release in the end. The server has not delivered them
// before since.
func (c *Consumer) take(messages []*nats.Msg, since time.Time, q *durable, release func()) {
	reports := make([]*delivery, 0, len(messages))
	troubles := c.troubles()
	for _, m := range messages {
		d, err := c.receive(m, since, q)
		if err != nil { // a message without a JetStream reply cannot come from a pull
			c.log.Error("received something that is no JetStream message", "subject", m.Subject, "err", err)
			release()
			continue
		}
		d.release, d.troubles = release, troubles
		reports = append(reports, d)
		c.hand.add(d)
	}
	if len(reports) > 0 {
		c.inWork.Add(len(reports))
		c.start(reports)
	}
}

func (c *Consumer) receive(m *nats.Msg, since time.Time, q *durable) (*delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	ref := stream.Ref{Stream: meta.Stream, Sequence: meta.Sequence.Stream}
	d := &delivery{
		Message: stream.Read(ref, m.Subject, m.Header, m.Data, meta.Timestamp),
		msg:     m, nc: c.js.Conn(), count: meta.NumDelivered, older: q.older(meta), stored: meta.Timestamp, since: c.clock.of(since),
		ackWait: c.cfg.Queues.AckWait, beatAt: since, logger: c.log,
	}
	d.ours = d.count > 1 && !d.older && c.ours.take(d)
	d.forgotten, d.unseen = c.inflight.forgotten(d.Message, d.attempt(c.cfg.Queues.MaxAttempts))
	return d, nil
}

// finish lets go of a report of which it is known what became of it.
func (c *Consumer) finish(d *delivery, o Outcome) {
	if o.Kind == "" {
		return // its commit is on its way
	}
	defer c.inWork.Done()
	defer d.release()
	if o.Kind != HandedBack && o.Kind != LeftAlone && !d.Carried.Suspect { // what was lost with this one comes next
		c.slots.widen(1)
	}
	c.note(d, o)
	c.observe(o)
	c.hand.remove(d)
	c.inflight.end(d)
	if d.stuck != nil {
		c.stuck.Add(1)
		<-d.stuck
		c.stuck.Add(-1)
	}
}

// attempt is the number of the attempt that this delivery is for, from 1: what was spent before it was handed
// back, which is less than most, and the deliveries since, of which the server may have forgotten the last.
func (d *delivery) attempt(most int) int {
	return int(d.count) + d.forgotten + min(d.Carried.Attempts, most-1)
}

// again reports whether somebody else may have had this message before, or this worker without putting it off.
func (d *delivery) again() bool {
	return d.count > 1 && !d.ours || d.older || d.forgotten > 0 || d.Identity != d.Ref
}

// lost reports whether the server has given the message to somebody else by now. A worker that has lost a message may
// still commit or bury the report, but sends no NAK, no heartbeat and no hand-back: they would hit the new owner.
func (d *delivery) lost() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disowned || time.Since(d.beatAt) > d.ackWait
}

// hand is everything in hand.
type hand struct {
	mu sync.Mutex
	in map[*delivery]struct{}
}

func (h *hand) add(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.in == nil {
		h.in = map[*delivery]struct{}{}
	}
	h.in[d] = struct{}{}
}

func (h *hand) remove(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.in, d)
}

// disown gives up what is in hand of a queue and was delivered before its consumer was made anew at a time: no word about it is said any
// more. If the stream was made anew too, the same sequence may be another report's, and the word would be about that.
func (h *hand) disown(queue string, made time.Time) {
	for _, d := range h.all() {
		if d.Ref.Stream == queue && d.stored.Before(made) && d.since.Before(made) {
			d.mu.Lock()
			d.disowned = true
			d.mu.Unlock()
		}
	}
}

func (h *hand) all() []*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*delivery, 0, len(h.in))
	for d := range h.in {
		all = append(all, d)
	}
	return all
}

// beat tells the server every AckWait/3 that everything in hand is being worked on, until ctx ends. A round of heartbeats
// counts when the server has answered after it: what is only sent may lie in a buffer.
func (c *Consumer) beat(ctx context.Context) {
	pause := c.cfg.Queues.AckWait / 3
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		var sent []*delivery
		for _, d := range c.hand.all() {
			if d.heartbeat() {
				sent = append(sent, d)
			}
		}
		if len(sent) == 0 {
			continue
		}
		answer, cancel := context.WithTimeout(ctx, pause)
		err := c.js.Conn().FlushWithContext(answer)
		cancel()
		if err != nil {
			c.trouble()
			continue // what is in hand counts as lost AckWait after its last heartbeat that arrived
		}
		for _, d := range sent {
			d.beaten(began)
		}
	}
}

// commitID tells one's own ledger entry from another's.
func (d *delivery) commitID() string {
	id := append(make([]byte, 0, 64), d.Ref.Stream...)
	id = strconv.AppendUint(append(id, '/'), d.Ref.Sequence, 10)
	return string(strconv.AppendUint(append(id, '/'), d.count, 10))
}

// source is scheme://host of the report's source, or [dlq.LocalFiles].
func (d *delivery) source() string {
	if d.upstream == "" {
		d.upstream = dlq.Upstream(d.Event.SourceURI)
	}
	return d.upstream
}

// log is for lines about the report.
func (d *delivery) log() *slog.Logger { return slog.New(d.logger.Handler().WithAttrs(d.names())) }

// tell logs what became of the report, without the logger that log makes for it, and without looking for the line of the source that
// nobody asks for.
func (d *delivery) tell(level slog.Level, event string, more ...slog.Attr) {
	ctx, h := context.Background(), d.logger.Handler()
	if !h.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, event, 0)
	r.AddAttrs(d.names()...)
	r.AddAttrs(more...)
	_ = h.Handle(ctx, r) // as slog.Logger does
}

// names tell of which report a line is.
func (d *delivery) names() []slog.Attr {
	return []slog.Attr{slog.String("site", d.Event.SiteID), slog.String("key", d.Key.Short())}
}
