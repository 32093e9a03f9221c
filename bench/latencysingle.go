package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/report"
)

// journeys times reports from just before they are published until the worker has acknowledged them.
type journeys struct {
	mu    sync.Mutex
	began map[report.Key]time.Time
	took  []time.Duration
	last  time.Time // when the last one ended
	want  int       // more to come until all is closed
	all   chan struct{}
	wrong error // what became of a report that was not done
}

// expect begins a new count.
func (j *journeys) expect(n int) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.began, j.took, j.want, j.all = map[report.Key]time.Time{}, make([]time.Duration, 0, n), n, make(chan struct{})
	return j.all
}

func (j *journeys) begin(m *nats.Msg) {
	key := report.Key(m.Header.Get(jetstream.MsgIDHeader))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.began[key] = time.Now()
}

func (j *journeys) observe(o consumer.Outcome) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	began, ours := j.began[o.Key]
	if o.Kind != consumer.Succeeded || !ours {
		j.wrong = fmt.Errorf("a report of %s was %s: %s", o.SiteID, o.Kind, o.Reason)
	}
	delete(j.began, o.Key)
	j.took, j.last = append(j.took, now.Sub(began)), now
	if j.want--; j.want == 0 {
		close(j.all)
	}
}

// times are what the journeys took since expect, sorted, and when the last one ended.
func (j *journeys) times() ([]time.Duration, time.Time, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(slices.Values(j.took)), j.last, j.wrong
}

// measureSingle times single reports: alone, with pauses in which the worker falls idle, and then within half of the rate that was the
// largest when reports were published as fast as they are stored and worked meanwhile.
func measureSingle(ctx context.Context, cfg LatencyConfig, r *LatencyResult) (err error) {
	b, err := cfg.openBed(ctx, 0, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	var j journeys
	ctx, stop, err := b.work(ctx, noop, j.observe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	r.Single = &SingleResult{}
	if err := b.alone(ctx, &j, cfg.Samples, r.Single); err != nil {
		return err
	}
	all, began := j.expect(cfg.Reports), time.Now()
	if err := b.publish(ctx, cfg.Reports, j.begin); err != nil {
		return err
	}
	if err := await(ctx, all, "the reports that show the largest rate"); err != nil {
		return err
	}
	_, last, err := j.times()
	if err != nil {
		return err
	}
	r.Single.Max = float64(cfg.Reports) / last.Sub(began).Seconds()
	return b.half(ctx, &j, cfg.Load, r.Single)
}

// alone publishes one report at a time.
func (b *bed) alone(ctx context.Context, j *journeys, samples int, r *SingleResult) error {
	done := make([]time.Duration, 0, samples)
	stored := make([]time.Duration, 0, samples)
	for range samples {
		select {
		case <-time.After(100*time.Millisecond + rand.N(100*time.Millisecond)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		all, m := j.expect(1), b.next()
		began := time.Now()
		j.begin(m)
		if _, err := b.publisher.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		stored = append(stored, time.Since(began))
		if err := await(ctx, all, "a single report"); err != nil {
			return err
		}
		took, _, err := j.times()
		if err != nil {
			return err
		}
		done = append(done, took...)
	}
	slices.Sort(done)
	slices.Sort(stored)
	r.Idle, r.Stored = percentiles(done), percentiles(stored)
	return nil
}

// half publishes half of the largest rate for a time.
func (b *bed) half(ctx context.Context, j *journeys, load time.Duration, r *SingleResult) error {
	n := max(1, min(int(r.Max/2*load.Seconds()), 2_000_000))
	all, began := j.expect(n), time.Now()
	if err := b.pace(ctx, n, load, j.begin); err != nil {
		return err
	}
	r.Load = float64(n) / time.Since(began).Seconds()
	if err := await(ctx, all, "the reports of the half load"); err != nil {
		return err
	}
	took, _, err := j.times()
	r.Half = percentiles(took)
	return err
}

// pace publishes n reports evenly over a time, in steps of a millisecond, and waits until all are stored.
func (b *bed) pace(ctx context.Context, n int, over time.Duration, each func(*nats.Msg)) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	acks := make([]jetstream.PubAckFuture, 0, n)
	for len(acks) < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for due := min(n, int(float64(n)*float64(time.Since(began))/float64(over))); len(acks) < due; {
			ack, err := b.send(each)
			if err != nil {
				return err
			}
			acks = append(acks, ack)
		}
	}
	return b.stored(ctx, acks)
}
