package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/report"
)

// errLater is what the handler says of a report that is to wait. Its code says nothing of the upstream, so that nothing is parked.
var errLater = errors.New("not yet")

// measureRetries has each of many reports fail once, asking for the same delay, and measures in the handler how much later than that the second
// attempt begins. All wait at once, and all at once become due: what the last ones wait for is the others.
func measureRetries(ctx context.Context, cfg LatencyConfig, r *LatencyResult) error {
	for _, n := range cfg.Outstanding {
		for _, delay := range cfg.Delays {
			row, err := cfg.retries(ctx, n, delay, r)
			if err != nil {
				return fmt.Errorf("%d after %v: %w", n, delay, err)
			}
			r.Retries = append(r.Retries, row)
		}
	}
	return nil
}

func (c LatencyConfig) retries(ctx context.Context, n int, delay time.Duration, r *LatencyResult) (row RetryResult, err error) {
	b, err := c.openBed(ctx, n, r)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	places := make(map[report.Key]int, n)
	if err := b.publish(ctx, n, func(m *nats.Msg) { places[report.Key(m.Header.Get(jetstream.MsgIDHeader))] = len(places) }); err != nil {
		return row, err
	}
	base := time.Now()
	failed := make([]atomic.Int64, n) // when the first attempt of each ended, since base
	late := make([]time.Duration, n)
	var done, waiting, most atomic.Int64
	all := make(chan struct{})
	handler := func(ctx context.Context, e report.Event) (report.Result, error) {
		now := time.Since(base)
		i := places[e.Key()]
		if first := time.Duration(failed[i].Load()); first > 0 {
			waiting.Add(-1)
			late[i] = now - first - delay
			return noop(ctx, e)
		}
		for w, m := waiting.Add(1), most.Load(); w > m && !most.CompareAndSwap(m, w); m = most.Load() {
		}
		err := report.RetryAfter(delay, report.CodeNotFound, errLater)
		failed[i].Store(int64(time.Since(base)))
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	working, stop, err := b.work(ctx, handler, func(o consumer.Outcome) {
		switch o.Kind {
		case consumer.Retried:
		case consumer.Succeeded:
			if done.Add(1) == int64(n) {
				close(all)
			}
		default:
			fail(fmt.Errorf("a report of %s was %s: %s", o.SiteID, o.Kind, o.Reason))
		}
	})
	if err != nil {
		return row, err
	}
	err = await(working, all, "the retries")
	if err = errors.Join(err, stop()); err != nil {
		return row, err
	}
	row = RetryResult{Outstanding: n, Most: int(most.Load()), Delay: delay.Seconds() * 1000}
	for _, l := range late {
		if l < 0 {
			row.Early++
		}
	}
	slices.Sort(late)
	row.Late = percentiles(late)
	return row, nil
}

// heldFor is longer than any lap takes.
const heldFor = time.Hour

// measureHeld measures the rate of a backlog while many other reports wait for their retry, and without those, one after the other.
func measureHeld(ctx context.Context, cfg LatencyConfig, r *LatencyResult) error {
	h := &HeldResult{Held: cfg.Held, Reports: cfg.Reports}
	var with, without, ratios, cpus []float64
	for range cfg.Reps {
		alone, aloneCPU, err := cfg.heldLap(ctx, 0, r)
		if err != nil {
			return err
		}
		beside, besideCPU, err := cfg.heldLap(ctx, cfg.Held, r)
		if err != nil {
			return err
		}
		without, with, ratios = append(without, alone), append(with, beside), append(ratios, beside/alone)
		if aloneCPU > 0 && besideCPU > 0 {
			cpus = append(cpus, besideCPU.Seconds()/aloneCPU.Seconds())
		}
	}
	h.With, h.Without, h.Ratio, h.CPU = spread(with), spread(without), spread(ratios), known(cpus)
	r.Held = h
	return nil
}

// heldLap is the rate of one backlog beside so many held reports, and the processor time it took, 0 if that is unknown.
func (c LatencyConfig) heldLap(ctx context.Context, held int, r *LatencyResult) (perSecond float64, cpu time.Duration, err error) {
	b, err := c.openBed(ctx, held, r)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	b.cfg.Backoff.Max = heldFor
	if held > 0 {
		if err := b.hold(ctx, held); err != nil {
			return 0, 0, fmt.Errorf("hold %d reports: %w", held, err)
		}
	}
	var j journeys
	all := j.expect(c.Reports)
	if err := b.publish(ctx, c.Reports, j.begin); err != nil {
		return 0, 0, err
	}
	before, unknown := b.place.cpu()
	began := time.Now()
	ctx, stop, err := b.work(ctx, noop, j.observe)
	if err != nil {
		return 0, 0, err
	}
	err = await(ctx, all, "the backlog")
	after, again := b.place.cpu()
	if unknown == nil && again == nil {
		cpu = after - before
	}
	_, last, wrong := j.times()
	if err = errors.Join(err, wrong, stop()); err != nil {
		return 0, 0, err
	}
	return float64(c.Reports) / last.Sub(began).Seconds(), cpu, nil
}

// hold publishes reports and has a worker put each of them off, for longer than the lap takes.
func (b *bed) hold(ctx context.Context, n int) error {
	if err := b.publish(ctx, n, func(*nats.Msg) {}); err != nil {
		return err
	}
	var put atomic.Int64
	all := make(chan struct{})
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	working, stop, err := b.work(ctx, func(context.Context, report.Event) (report.Result, error) {
		return nil, report.RetryAfter(heldFor, report.CodeNotFound, errLater)
	}, func(o consumer.Outcome) {
		if o.Kind != consumer.Retried {
			fail(fmt.Errorf("a report of %s was %s: %s", o.SiteID, o.Kind, o.Reason))
		} else if put.Add(1) == int64(n) {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	return errors.Join(await(working, all, "putting reports off"), stop())
}
