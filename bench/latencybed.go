package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
)

// bed is a server set up for the product, with a connection for the worker and one for the publisher.
type bed struct {
	cfg       consumer.Config
	place     *place
	mine      *claim // of a given server: what is to be deleted again
	dir       string // for the worker's log
	inflight  string // as consumer.Config.InFlight
	worker    jetstream.JetStream
	publisher jetstream.JetStream
	published int // reports, all different
}

// openBed opens a fresh one with room for so many outstanding reports. Close it when done.
func (c LatencyConfig) openBed(ctx context.Context, outstanding int, r *LatencyResult) (_ *bed, err error) {
	b := &bed{cfg: c.consumerConfig(outstanding)}
	if b.place, err = openPlace(ctx, c.Place); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close(ctx))
		}
	}()
	if b.dir = b.place.dir; c.Place.Mode == Embedded {
		b.inflight = filepath.Join(b.dir, "inflight")
	}
	for _, js := range []*jetstream.JetStream{&b.worker, &b.publisher} {
		nc, err := b.place.connect()
		if err != nil {
			return nil, err
		}
		r.Settings.Server = nc.ConnectedServerVersion()
		if *js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(30*time.Second), jetstream.WithPublishAsyncMaxPending(4096)); err != nil {
			nc.Close()
			return nil, err
		}
	}
	mine, err := stake(ctx, b.worker, b.cfg.Queues)
	if c.Place.Mode == Given {
		b.mine = mine
	}
	return b, err
}

func (b *bed) close(ctx context.Context) (err error) {
	if b.mine != nil {
		err = b.mine.leave(context.WithoutCancel(ctx), uint64(b.published))
	}
	for _, js := range []jetstream.JetStream{b.worker, b.publisher} {
		if js != nil {
			js.Conn().Close()
		}
	}
	return errors.Join(err, b.place.close())
}

// next is a report that was not published before.
func (b *bed) next() *nats.Msg {
	b.published++
	return backlog(b.published-1, 0)
}

// publish hands so many reports over, calling each for every one of them before it is sent, and waits until all are stored.
func (b *bed) publish(ctx context.Context, n int, each func(*nats.Msg)) error {
	acks := make([]jetstream.PubAckFuture, 0, n)
	for range n {
		ack, err := b.send(each)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	return b.stored(ctx, acks)
}

// send sends the next report, after calling each for it.
func (b *bed) send(each func(*nats.Msg)) (jetstream.PubAckFuture, error) {
	m := b.next()
	each(m)
	ack, err := b.publisher.PublishMsgAsync(m, jetstream.WithStallWait(stuck))
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return ack, nil
}

// stored waits until each of these was acknowledged.
func (b *bed) stored(ctx context.Context, acks []jetstream.PubAckFuture) error {
	for _, ack := range acks {
		select {
		case a := <-ack.Ok():
			if a.Duplicate {
				return errors.New("publish: a report is a duplicate")
			}
		case err := <-ack.Err():
			return fmt.Errorf("publish: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// work runs the product with a handler until the returned function is called, which waits for its end. What the product cannot go on
// with ends the returned context.
func (b *bed) work(ctx context.Context, h consumer.Handler, observe func(consumer.Outcome)) (context.Context, func() error, error) {
	cfg := b.cfg
	cfg.Observe, cfg.InFlight = observe, b.inflight
	run, err := openWorker(ctx, b.worker, h, cfg, b.dir)
	if err != nil {
		return nil, nil, err
	}
	running, fail := context.WithCancelCause(ctx)
	working, finish := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := run(working)
		if err == nil && working.Err() == nil {
			err = errors.New("the worker has ended")
		}
		fail(err)
		ended <- err
	}()
	return running, func() error {
		finish()
		return <-ended
	}, nil
}

// await waits until done is closed, or for as long as a lap may go without an end.
func await(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(stuck + patience):
		return fmt.Errorf("%s: not yet after %v", what, stuck+patience)
	}
}
