package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
)

// publishWindow bounds the portions of a list that are on their way at once: 4,000 reports, or 16 MiB.
const publishWindow = 8

// Settled finds which of some reports, at most 500, need no publishing. It is called from several goroutines at once.
type Settled func(context.Context, []report.Ref) map[report.Key]bool

// PublishAll hands many reports over, a bounded number on their way at once, and yields a receipt for each in the order of
// rows. A row with an error gets it as its receipt and is not sent; nor is one that settled names, unless settled is nil. Rows are read,
// and settled is called, on other goroutines, which have ended when the loop has. The loop's body may break, and ctx
// may end; what is on its way then is not waited for.
func PublishAll(ctx context.Context, js jetstream.JetStream, rows iter.Seq[report.Row], settled Settled) iter.Seq[Receipt] {
	return func(yield func(Receipt) bool) {
		f := newFlight(js)
		defer f.close()
		for p := range readAhead(ctx, rows, settled) {
			if len(f.portions) == publishWindow && !f.land(ctx, yield) {
				return
			}
			f.send(p)
			for f.listen(); len(f.portions) > 0 && f.portions[0].waiting == 0; {
				if !f.land(ctx, yield) {
					return
				}
			}
		}
		for len(f.portions) > 0 {
			if !f.land(ctx, yield) {
				return
			}
		}
	}
}

// answer is what the server said to one report.
type answer struct {
	sent, here bool
	duplicate  bool
	err        error
}

// flight is the portions on their way. One goroutine sends them and takes the answers in, which come to one inbox with the number of
// the row. nats.go's own asynchronous publisher costs about twice the processor time in this process: it has a timer, a map entry,
// two channels and a JSON decoder for each message.
type flight struct {
	js       jetstream.JetStream
	nc       *nats.Conn
	inbox    string
	sub      *nats.Subscription
	err      error // there is no inbox
	answers  chan *nats.Msg
	lost     chan nats.Status // the connection is: answers will not come
	portions []*portion
	landed   int // portions that have left the flight
	msg      nats.Msg
	id       []string // its Nats-Msg-Id
	patience *time.Timer
}

func newFlight(js jetstream.JetStream) *flight {
	nc := js.Conn()
	f := &flight{js: js, nc: nc, inbox: nc.NewInbox() + ".", answers: make(chan *nats.Msg, 2*publishWindow*portionRows),
		lost: nc.StatusChanged(nats.RECONNECTING, nats.CLOSED), id: make([]string, 1), patience: time.NewTimer(publishPatience)}
	f.msg.Header = nats.Header{jetstream.MsgIDHeader: f.id, jetstream.ExpectedStreamHeader: {Reports}}
	f.sub, f.err = nc.ChanSubscribe(f.inbox+"*", f.answers)
	return f
}

func (f *flight) close() {
	f.patience.Stop()
	f.nc.RemoveStatusListener(f.lost)
	if f.err == nil {
		_ = f.sub.Unsubscribe()
	}
}

// send sends what there is to send of a portion. What cannot be sent is published once more when it is its turn, waiting.
func (f *flight) send(p *portion) {
	select {
	case <-f.lost: // before this portion
		f.giveUp()
	default:
	}
	number := (f.landed + len(f.portions)) * portionRows
	for i, row := range p.rows {
		if row.Err != nil || p.settled[p.refs[i].Key] || f.err != nil {
			continue
		}
		f.msg.Subject = subject(p.refs[i].Site)
		f.msg.Reply = f.inbox + strconv.Itoa(number+i)
		f.msg.Data = row.Body
		f.id[0] = string(p.refs[i].Key)
		if f.nc.PublishMsg(&f.msg) == nil {
			p.answers[i].sent = true
			p.waiting++
		}
	}
	f.portions = append(f.portions, p)
}

// listen takes in the answers that are here.
func (f *flight) listen() {
	for {
		select {
		case m := <-f.answers:
			f.take(m)
		default:
			return
		}
	}
}

// take notes one answer.
func (f *flight) take(m *nats.Msg) {
	number, err := strconv.Atoi(m.Subject[min(len(f.inbox), len(m.Subject)):])
	if err != nil || number < f.landed*portionRows || number >= (f.landed+len(f.portions))*portionRows {
		return // one that was given up
	}
	p, i := f.portions[number/portionRows-f.landed], number%portionRows
	if i >= len(p.answers) || !p.answers[i].sent || p.answers[i].here {
		return
	}
	a := &p.answers[i]
	a.here, p.waiting = true, p.waiting-1
	a.duplicate, a.err = readAnswer(m)
}

// land waits for the answers to the first portion and yields its receipts. A report whose answer is lost is published again. It
// returns whether the loop's body wants more.
func (f *flight) land(ctx context.Context, yield func(Receipt) bool) bool {
	p := f.portions[0]
	f.await(ctx, p)
	f.portions, f.landed = append(f.portions[:0], f.portions[1:]...), f.landed+1
	for i, row := range p.rows {
		r := Receipt{Row: row, Err: row.Err}
		switch a := p.answers[i]; {
		case row.Err != nil:
		case p.settled[p.refs[i].Key]:
			r.Settled = true
		case a.here && (a.err == nil || !unknown(a.err)):
			r.Duplicate, r.Err = a.duplicate, published(row.Event, a.err)
		case ctx.Err() != nil:
			r.Err = ctx.Err()
		default:
			r.Duplicate, r.Err = Publish(ctx, f.js, row.Event, row.Body)
		}
		if !yield(r) {
			return false
		}
	}
	return true
}

// await waits until a portion is answered, or no answer at all has come for 15 s, or none will come any more.
func (f *flight) await(ctx context.Context, p *portion) {
	f.patience.Reset(publishPatience)
	for p.waiting > 0 {
		select {
		case m := <-f.answers:
			f.take(m)
			if f.listen(); p.waiting > 0 {
				f.patience.Reset(publishPatience)
			}
		case <-f.lost:
			f.giveUp()
		case <-f.patience.C:
			if len(f.answers) == 0 {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// giveUp expects no answer to what was sent so far, other than those that are here.
func (f *flight) giveUp() {
	f.listen()
	for _, p := range f.portions {
		for i := range p.answers {
			p.answers[i].sent = p.answers[i].here
		}
		p.waiting = 0
	}
}

var stored = []byte(`{"stream":"` + Reports + `","seq":`)

// readAnswer reads the server's word on one report. An error that is [unknown] says nothing.
func readAnswer(m *nats.Msg) (duplicate bool, err error) {
	if sequence, ok := bytes.CutPrefix(m.Data, stored); ok && m.Header == nil { // as it nearly always is
		if end := bytes.TrimLeft(sequence, "0123456789"); len(end) < len(sequence) && string(end) == "}" {
			return false, nil
		}
	}
	if len(m.Data) == 0 { // nobody takes it, at this moment
		return false, nats.ErrNoResponders
	}
	var said struct {
		Error     *jetstream.APIError `json:"error"`
		Stream    string              `json:"stream"`
		Duplicate bool                `json:"duplicate"`
	}
	switch err := json.Unmarshal(m.Data, &said); {
	case err != nil:
		return false, jetstream.ErrInvalidJSAck
	case said.Error != nil:
		return false, said.Error
	case said.Stream == "":
		return false, jetstream.ErrInvalidJSAck
	}
	return said.Duplicate, nil
}
