package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Handler does the work on one report. It returns the result, or an error made by the functions of package
// report; any other error is judged by [report.Classify]. The context ends after Config.AttemptTimeout, and when a stopping
// worker cuts what is still running. A handler that ignores that keeps its worker slot until it returns.
type Handler func(context.Context, report.Event) (report.Result, error)

// Kind says what became of one delivery.
type Kind string

const (
	Succeeded  Kind = "succeeded"   // the result is committed
	Duplicate  Kind = "duplicate"   // the report had been settled before
	Retried    Kind = "retried"     // another attempt follows
	Buried     Kind = "buried"      // it is in the dead-letter queue
	Parked     Kind = "parked"      // its upstream is down; it comes back later, and no attempt was spent
	HandedBack Kind = "handed_back" // the worker is stopping; no attempt was spent
	LeftAlone  Kind = "left_alone"  // the server will deliver it again after AckWait
)

// Outcome is what became of one delivery.
type Outcome struct {
	Kind     Kind
	Key      report.Key
	SiteID   string
	Attempts int
	Class    report.Class // of Buried
	Code     report.Code  // of Buried and Retried
	Reason   string       // of Buried and Retried
}

// Consumer works the two queues. Make one with [Open] and call [Consumer.Run] once.
type Consumer struct {
	cfg     Config
	handler Handler
	log     *slog.Logger
	js      jetstream.JetStream

	queues  *stream.Queues
	ledger  *keyvalue.Ledger
	sites   *keyvalue.Sites
	trail   *audit.Trail
	letters *dlq.Queue
	turns   *keyvalue.Turns

	slots    *slots
	inWork   sync.WaitGroup // one per report in hand, and one per goroutine that works reports
	hand     hand
	arrivals arrivals
	ours     ours
	gate     gate
	stuck    atomic.Int64 // handlers that outlived their time-out
	due      dueWarnings

	down     outages
	clock    clock
	inflight *inflight

	upstreams upstreams
	pace      *rate.Limiter // of automatic replays

	stopping context.Context // ends when intake must stop
	stop     context.CancelFunc
	taken    chan struct{}   // closed when intake has ended: no pull of ours is open any more
	running  context.Context // ends when running attempts are cut
	cut      context.CancelFunc
	step     func(string) // nil outside tests: called after each row
}

// Open checks the configuration against the server and opens every room. It returns [stream.ErrNotSetUp] or
// [stream.ErrDrift] if streams or consumers are missing or differ from the configuration.
func Open(ctx context.Context, js jetstream.JetStream, h Handler, cfg Config, log *slog.Logger) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open the consumer: %w", err)
	}
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		return nil, notSetUp(err)
	}
	if cfg.SyncedStore {
		if err := ledger.Group(); err != nil {
			return nil, fmt.Errorf("open the consumer: %w", err)
		}
	}
	sites, err := keyvalue.OpenSites(ctx, js)
	if err != nil {
		return nil, notSetUp(err)
	}
	turns, err := keyvalue.OpenTurns(ctx, js)
	if err != nil {
		return nil, notSetUp(err)
	}
	if most := js.Conn().MaxPayload(); most < 1<<20 {
		return nil, fmt.Errorf("open the consumer: the server takes messages of at most %d bytes: dead letters need max_payload 1MB", most)
	}
	queues, trail := stream.New(js, cfg.Queues), audit.New(js)
	for _, name := range []string{dlq.Stream, audit.Stream} { // never work with no place for the dead
		if _, err := js.Stream(ctx, name); err != nil {
			return nil, notSetUp(fmt.Errorf("stream %s: %w", name, err))
		}
	}
	for _, name := range stream.Names() {
		if _, err := queues.Worker(ctx, name); err != nil {
			return nil, err
		}
	}
	c := &Consumer{
		cfg: cfg, handler: h, log: log, js: js,
		queues: queues, ledger: ledger, sites: sites, trail: trail, letters: dlq.New(js, queues, ledger, trail, cfg.ReplayMax),
		turns: turns, pace: rate.NewLimiter(rate.Limit(cfg.ReplayRate), 1),
		slots: newSlots(cfg.Workers), taken: make(chan struct{}),
	}
	if c.inflight, err = openInflight(ctx, cfg.InFlight, queues); err != nil {
		return nil, err
	}
	c.running, c.cut = context.WithCancel(context.Background())
	return c, nil
}

func notSetUp(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w: %w", err, stream.ErrNotSetUp)
	}
	return err
}

// stuckGrace is how long Run waits for handlers that ignore their cut context.
const stuckGrace = 5 * time.Second

// Run works until ctx is cancelled and returns nil, or until it cannot go on: the connection is closed for
// good, or workers and server disagree ([stream.ErrDrift]). The order of its end:
//
//  1. Intake stops: each open pull ends, within a second. What it still brought is handed back, when both queues' pulls have ended:
//     until then they would bring it again. Automatic replays stop too, after the few letters that they have in hand; the next turn,
//     of another worker or after the next start, goes on from there.
//  2. Running attempts may end within Config.StopGrace; then, or when [Consumer.Cut] is called, their contexts are cut.
//  3. Every report is settled or handed back.
//  4. The replays, the sweep and then the heartbeats end, as those kept the others' messages in hand.
//  5. What is still in the connection's buffer is flushed.
//
// It does not wait for ever for a handler that ignores its context: after 5 s more it returns an error that counts them.
func (c *Consumer) Run(ctx context.Context) error {
	c.stopping, c.stop = context.WithCancel(ctx)
	ctx = c.stopping
	defer c.stop()
	defer c.cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.cfg.StopGrace, c.cut) })()

	beating, endBeats := context.WithCancel(context.Background())
	defer endBeats()
	var intake, beats, sweeps, replays sync.WaitGroup
	var busy [2]atomic.Bool // whether the last look into a queue found something
	var failed [2]error     // why an intake cannot go on
	for i, name := range stream.Names() {
		intake.Go(func() {
			if failed[i] = c.intake(ctx, name, &busy[i], &busy[1-i]); failed[i] != nil {
				c.stop()
			}
		})
	}
	beats.Go(func() { c.beat(beating) })
	sweeps.Go(func() { c.sweep(ctx) })
	if c.cfg.ReplayEvery > 0 {
		replays.Go(func() { c.replayOnSchedule(ctx) })
		replays.Go(func() { c.replayRecovered(ctx) })
	}

	intake.Wait()
	close(c.taken)
	stuck := c.waitForWork()
	c.stop()
	replays.Wait()
	sweeps.Wait()
	endBeats()
	beats.Wait()
	c.slots.widen(c.slots.most)
	c.flush()
	c.inflight.close()
	return cmp.Or(failed[0], failed[1], stuck)
}

// Cut ends the grace of a stopping worker: running attempts are cut now and their reports handed back.
func (c *Consumer) Cut() { c.cut() }

// waitForWork waits for every report in hand, but not for ever once attempts were cut.
func (c *Consumer) waitForWork() error {
	done := make(chan struct{})
	go func() {
		c.inWork.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-c.running.Done():
	}
	select {
	case <-done:
		return nil
	case <-time.After(stuckGrace + c.handlerGrace()):
	}
	if n := c.stuck.Load(); n > 0 {
		return fmt.Errorf("%d handlers ignore that their context has ended", n)
	}
	// The others wait for the server, each request for a bounded time.
	select {
	case <-done:
		return nil
	case <-time.After(2 * persistTimeout):
		return fmt.Errorf("the server did not answer: %d reports in hand are left to be delivered again", len(c.hand.all()))
	}
}

func (c *Consumer) flush() {
	if c.js.Conn().IsClosed() {
		return // what was on its way is never answered
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	select {
	case <-c.js.PublishAsyncComplete():
	case <-ctx.Done():
	}
	if err := c.js.Conn().FlushWithContext(ctx); err != nil {
		c.log.Warn("flush the connection", "err", err)
	}
}

// trouble is a sign that deliveries are being lost.
func (c *Consumer) trouble() {
	c.slots.narrow()
	c.ours.forget()
}

func (c *Consumer) did(step string) {
	if c.step != nil {
		c.step(step)
	}
}

func (c *Consumer) observe(o Outcome) {
	if c.cfg.Observe != nil {
		c.cfg.Observe(o)
	}
}
