package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Design is one way to work a queue.
type Design string

// The designs. All but [Guyline] are yardsticks, written as a user of nats.go would.
const (
	Raw         Design = "raw"          // consume and acknowledge: the ceiling of the product's kind of queue, which deletes what is acknowledged
	RawLimits   Design = "raw-limits"   // the same on a stream that deletes nothing
	Floor       Design = "floor"        // and one put per report, pipelined; nothing is decoded and nothing compared: the floor of any ledger
	FloorLimits Design = "floor-limits" // the same on a stream that deletes nothing
	Naive       Design = "naive"        // 64 goroutines: look-up, handler, create, acknowledge
	Create      Design = "create"       // 64 goroutines: handler, create, acknowledge; the handler runs for known reports too
	CreateAsync Design = "create-async" // the same, pipelined with nats.go's own asynchronous publisher
	Guyline     Design = "guyline"      // the product, everything on
)

// Designs are all, in the order in which they are run.
func Designs() []Design {
	return []Design{Raw, RawLimits, Floor, FloorLimits, Naive, Create, CreateAsync, Guyline}
}

// design says how one is run and what it leaves behind.
type design struct {
	open   func(context.Context, *lap) (work func(context.Context) error, err error) // work goes on until its context ends
	limits bool                                                                      // it works the stream that deletes nothing
	ledger bool                                                                      // it leaves an entry per report
	keyed  bool                                                                      // and knows duplicates
}

var designs = map[Design]design{
	Raw:         {open: openRaw},
	RawLimits:   {open: openRaw, limits: true},
	Floor:       {open: openFloor, ledger: true},
	FloorLimits: {open: openFloor, limits: true, ledger: true},
	Naive:       {open: openNaive, ledger: true, keyed: true},
	Create:      {open: openCreate, ledger: true, keyed: true},
	CreateAsync: {open: openCreateAsync, ledger: true, keyed: true},
	Guyline:     {open: openGuyline, ledger: true, keyed: true},
}

const (
	buffered    = 2000 // messages that nats.go asks for ahead
	goroutines  = 64   // of the designs that wait for each answer
	asyncWindow = 1024 // commits on their way, of those that do not
)

// consume has nats.go call handle for every message, one after the other.
func (l *lap) consume(ctx context.Context, handle func(jetstream.Msg)) (work func(context.Context) error, err error) {
	c, err := l.js.Consumer(ctx, l.queue(), stream.Consumer)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		consuming, err := c.Consume(handle, jetstream.PullMaxMessages(buffered))
		if err != nil {
			return err
		}
		<-ctx.Done()
		consuming.Stop()
		<-consuming.Closed()
		return nil
	}, nil
}

// ack acknowledges a message, without waiting for an answer.
func (l *lap) ack(m jetstream.Msg, duplicate bool) {
	if err := m.Ack(); err != nil {
		l.fail(err)
		return
	}
	l.settle(duplicate)
}

func openRaw(ctx context.Context, l *lap) (func(context.Context) error, error) {
	return l.consume(ctx, func(m jetstream.Msg) { l.ack(m, false) })
}

// openFloor writes an entry of the usual size under a key of the usual length, which it finds in the header.
func openFloor(ctx context.Context, l *lap) (func(context.Context) error, error) {
	c, err := newCommitter(l)
	if err != nil {
		return nil, err
	}
	e, err := read(backlog(0, 0).Data)
	if err != nil {
		return nil, err
	}
	value, err := l.entry(e, stream.Ref{Stream: stream.Reports, Sequence: 1})
	if err != nil {
		return nil, err
	}
	prefix := ledgerSubject + string(report.NewToken(e.SiteID)) + "."
	return l.consume(ctx, func(m jetstream.Msg) {
		c.commit(m, &nats.Msg{Subject: prefix + m.Headers().Get(jetstream.MsgIDHeader), Data: value})
	})
}

// crowd calls handle from 64 goroutines.
func (l *lap) crowd(ctx context.Context, handle func(context.Context, jetstream.Msg) error) (func(context.Context) error, error) {
	messages := make(chan jetstream.Msg)
	var stopped context.Context
	work, err := l.consume(ctx, func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-stopped.Done():
		}
	})
	return func(ctx context.Context) error {
		stopped = ctx
		var wait sync.WaitGroup
		defer wait.Wait()
		for range goroutines {
			wait.Go(func() {
				for {
					select {
					case m := <-messages:
						if err := handle(ctx, m); err != nil && ctx.Err() == nil {
							l.fail(err)
						}
					case <-ctx.Done():
						return
					}
				}
			})
		}
		return work(ctx)
	}, err
}

func openNaive(ctx context.Context, l *lap) (func(context.Context) error, error) {
	return l.blocking(ctx, true)
}

func openCreate(ctx context.Context, l *lap) (func(context.Context) error, error) {
	return l.blocking(ctx, false)
}

// blocking waits for each answer of the server, as code does that is written top to bottom.
func (l *lap) blocking(ctx context.Context, lookUp bool) (func(context.Context) error, error) {
	kv, err := l.js.KeyValue(ctx, ledgerBucket)
	if err != nil {
		return nil, err
	}
	return l.crowd(ctx, func(ctx context.Context, m jetstream.Msg) error {
		e, err := read(m.Data())
		if err != nil {
			return err
		}
		key := string(report.NewToken(e.SiteID)) + "." + string(e.Key())
		if lookUp {
			switch _, err := kv.Get(ctx, key); {
			case err == nil:
				l.ack(m, true)
				return nil
			case !errors.Is(err, jetstream.ErrKeyNotFound):
				return err
			}
		}
		value, err := l.work(ctx, m, e)
		if err != nil {
			return err
		}
		_, err = kv.Create(ctx, key, value)
		if duplicate := errors.Is(err, jetstream.ErrKeyExists); duplicate || err == nil {
			l.ack(m, duplicate)
			return nil
		}
		return err
	})
}

func openCreateAsync(ctx context.Context, l *lap) (func(context.Context) error, error) {
	c, err := newCommitter(l)
	if err != nil {
		return nil, err
	}
	return l.consume(ctx, func(m jetstream.Msg) {
		e, err := read(m.Data())
		if err != nil {
			l.fail(err)
			return
		}
		value, err := l.work(ctx, m, e)
		if err != nil {
			l.fail(err)
			return
		}
		subject := ledgerSubject + string(report.NewToken(e.SiteID)) + "." + string(e.Key())
		c.commit(m, &nats.Msg{Subject: subject, Data: value}, jetstream.WithExpectLastSequencePerSubject(0))
	})
}

// committer publishes without waiting, and acknowledges a message when what was published for it is.
type committer struct {
	lap *lap
	js  jetstream.JetStream

	mu     sync.Mutex
	source map[*nats.Msg]jetstream.Msg
}

func newCommitter(l *lap) (*committer, error) {
	c := &committer{lap: l, source: map[*nats.Msg]jetstream.Msg{}}
	var err error
	c.js, err = jetstream.New(l.js.Conn(), jetstream.WithPublishAsyncMaxPending(asyncWindow),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { c.settle(m, false) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			if !stream.Conflict(err) {
				l.fail(err)
				return
			}
			c.settle(m, true)
		}))
	return c, err
}

func (c *committer) commit(source jetstream.Msg, m *nats.Msg, opts ...jetstream.PublishOpt) {
	c.mu.Lock()
	c.source[m] = source
	c.mu.Unlock()
	if _, err := c.js.PublishMsgAsync(m, append(opts, jetstream.WithStallWait(stuck))...); err != nil {
		c.lap.fail(err)
	}
}

func (c *committer) settle(m *nats.Msg, duplicate bool) {
	c.mu.Lock()
	source := c.source[m]
	delete(c.source, m)
	c.mu.Unlock()
	c.lap.ack(source, duplicate)
}

// openGuyline is the product, with a handler that does nothing.
func openGuyline(ctx context.Context, l *lap) (func(context.Context) error, error) {
	cfg := l.cfg.consumerConfig()
	if l.cfg.Place.Mode == Embedded {
		cfg.InFlight = filepath.Join(l.place.dir, "inflight")
	}
	cfg.Observe = func(o consumer.Outcome) {
		switch o.Kind {
		case consumer.Succeeded, consumer.Duplicate:
			l.settle(o.Kind == consumer.Duplicate)
		case consumer.LeftAlone: // it is delivered again
		default:
			l.fail(fmt.Errorf("a report of %s was %s: %s", o.SiteID, o.Kind, o.Reason))
		}
	}
	return openWorker(ctx, l.js, noop, cfg, l.place.dir)
}

// noop is the handler of every design that has one.
func noop(context.Context, report.Event) (report.Result, error) { return noopResult, nil }

// noopResult has the size of a small result.
var noopResult = report.Result(`{"pages":12,"bytes":48213,"version":"1.7","producer":"none",` +
	`"title":"Annual inspection of a tower","text":true,"scanned":false}`)

// read decodes an event as loosely as a user of encoding/json would.
func read(body []byte) (e report.Event, err error) {
	err = json.Unmarshal(body, &e)
	return e, err
}

// work runs the handler and makes the ledger's entry of its result.
func (l *lap) work(ctx context.Context, m jetstream.Msg, e report.Event) ([]byte, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	if _, err := noop(ctx, e); err != nil {
		return nil, err
	}
	return l.entry(e, stream.Ref{Stream: meta.Stream, Sequence: meta.Sequence.Stream})
}

// entry is what the product writes.
func (l *lap) entry(e report.Event, ref stream.Ref) ([]byte, error) {
	return json.Marshal(keyvalue.Entry{
		State: keyvalue.Done, SiteID: e.SiteID, SourceURI: e.SourceURI, Result: noopResult, Attempts: 1,
		Worker: "bench/1", Commit: fmt.Sprintf("%s/%d/1", ref.Stream, ref.Sequence), Time: time.Now().UTC(),
	})
}
