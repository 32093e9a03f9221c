package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// parking lets reports be parked, for seconds.
func parking(cfg *consumer.Config) {
	cfg.ParkMax = time.Hour
	cfg.Workers = 8
	cfg.Backoff = report.Backoff{Base: 20 * time.Millisecond, Max: time.Second, Jitter: 10 * time.Millisecond}
}

// remote is one that can be down.
type remote struct {
	fault  atomic.Pointer[error]
	failed atomic.Int64 // runs
}

func (p *remote) down(err error) { p.fault.Store(&err) }
func (p *remote) up()            { p.fault.Store(nil) }

func (p *remote) work() (report.Result, error) {
	if err := p.fault.Load(); err != nil {
		p.failed.Add(1)
		return nil, *err
	}
	return nil, nil
}

// parked is how many reports have been put aside.
func (w *world) parked() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kinds := range w.outcomes {
		if slices.Contains(kinds, consumer.Parked) {
			n++
		}
	}
	return n
}

// One of three upstreams is down. Its reports wait aside and spend nothing, the others do not notice, and when it is up again
// all of them land.
func TestUpstreamDown(t *testing.T) {
	t.Parallel()
	const each = 300
	var b remote
	b.down(report.Transient(report.CodeConnection, errors.New("connection refused")))
	w := newWorld(t, func(_ context.Context, e report.Event, _ int) (report.Result, error) {
		if e.Metadata == nil && e.SourceURI[:9] == "sftp://b/" {
			return b.work()
		}
		return nil, nil
	}, parking)
	down := map[report.Key]bool{}
	for n := range each {
		for _, upstream := range []string{"sftp://a", "sftp://b", "sftp://c"} {
			key := w.publish("TWR-1", fmt.Sprintf("%s/%d.pdf", upstream, n))
			down[key] = upstream == "sftp://b"
		}
	}
	w.work()
	w.work()
	natstest.Eventually(t, "the others to land and the rest to be parked", seldom(func() bool {
		return w.commits() == 2*each && w.parked() == each // once: by now the first may be back to be parked again
	}))
	stopped := b.failed.Load()
	if stopped > each { // each would fail four times
		t.Errorf("%d runs failed before everything was parked", stopped)
	}
	c, err := w.finder.Count(t.Context())
	w.must(err)
	if c.Done != 2*each || c.DeadTotal() != 0 { // how many are aside changes while they are counted
		t.Errorf("while it is down: %+v", c)
	}

	probes := b.failed.Load()
	natstest.Eventually(t, "a few more probes", func() bool { return b.failed.Load() >= probes+3 })
	b.up()
	natstest.Eventually(t, "all to land", seldom(func() bool { return w.commits() == 3*each }))
	w.drain()
	spent := 0
	for e, err := range w.ledger.All(t.Context(), "*") {
		w.must(err)
		if !down[e.Key()] && e.Attempts != 1 {
			t.Errorf("%s took %d attempts", e.SourceURI, e.Attempts)
		}
		spent += e.Attempts - 1
	}
	if probed := b.failed.Load(); int64(spent) > stopped || spent > 2*(3+8) {
		t.Errorf("%d attempts were spent on an upstream that was down; %d runs failed, %d of them before everything was parked", spent, probed, stopped)
	}
	w.ends(invariant.Tally{Done: 3 * each})
}

// Wrong credentials are nobody's fault but ours: the reports wait aside, also when the worker that saw it is gone.
func TestHold(t *testing.T) {
	t.Parallel()
	const reports = 20
	var b remote
	b.down(report.Hold(report.CodeUnauthorized, errors.New("login failed")))
	w := newWorld(t, func(context.Context, report.Event, int) (report.Result, error) { return b.work() }, parking)
	for n := range reports {
		w.publish("TWR-1", fmt.Sprintf("sftp://b/%d.pdf", n))
	}
	first := w.work()
	natstest.Eventually(t, "all to be parked", seldom(func() bool { return w.stored() == 0 }))
	first.stop()
	failed := b.failed.Load()
	if failed > 2*reports { // each would fail four times
		t.Errorf("%d runs failed", failed)
	}
	a := w.fate(w.published[0])
	if p := a.Message.Carried.Parking; a.Fate != fate.Waiting || !a.Parked && a.Message.Carried.Parking == nil || p.Code != report.CodeUnauthorized ||
		p.Reason != "login failed" || p.Upstream != "sftp://b" || p.Since.IsZero() {
		t.Errorf("a parked report: %+v, %+v", a, a.Message.Carried.Parking)
	}

	w.work()
	natstest.Eventually(t, "another worker to probe", func() bool { return b.failed.Load() > failed+2 })
	b.up()
	natstest.Eventually(t, "all to land", seldom(func() bool { return w.commits() == reports }))
	w.drain()
	for e, err := range w.ledger.All(t.Context(), "*") {
		w.must(err)
		if e.Attempts != 1 {
			t.Errorf("%s took %d attempts", e.SourceURI, e.Attempts)
		}
	}
	recorded := 0
	for e, err := range w.trail.All(t.Context()) {
		w.must(err)
		if e.Kind != audit.Parked || e.Code != report.CodeUnauthorized {
			t.Errorf("the trail: %+v", e)
		}
		recorded++
	}
	if want := b.failed.Load(); int64(recorded) != want {
		t.Errorf("%d failed probes are recorded, want %d", recorded, want)
	}
	w.ends(invariant.Tally{Done: reports})
}

// A report is not put aside for ever: beyond the bound its attempts are spent, and it dies of what the upstream said.
func TestParkedTooLong(t *testing.T) {
	t.Parallel()
	var b remote
	b.down(report.Transient(report.CodeConnection, errors.New("connection refused")))
	w := newWorld(t, func(context.Context, report.Event, int) (report.Result, error) { return b.work() }, parking,
		func(cfg *consumer.Config) { cfg.ParkMax = 100 * time.Millisecond })
	key := w.publish("TWR-1", "sftp://b/1.pdf")
	w.work()
	l := w.dies(key, 0)
	w.wantDeath(l, death{report.ClassExhausted, report.CodeConnection, "exhausted 4 attempts: connection refused", 4, 0})
	if kinds := w.settled(key); !slices.Contains(kinds, consumer.Parked) {
		t.Errorf("it was never parked: %v", kinds)
	}
	w.ends(invariant.Tally{Dead: 1})
}

// A parked report is discarded by nobody, replayed by nobody, and settled once although its worker died while it was put aside.
func TestDeathWhileParking(t *testing.T) {
	t.Parallel()
	var b remote
	b.down(report.Hold(report.CodeHostKey, errors.New("host key has changed")))
	w := newWorld(t, func(context.Context, report.Event, int) (report.Result, error) { return b.work() }, parking,
		func(cfg *consumer.Config) { cfg.Queues.AckWait = 5 * time.Second })
	for n := range 10 {
		w.publish("TWR-1", fmt.Sprintf("sftp://b/%d.pdf", n))
	}
	for range 3 {
		dying := w.work()
		failed := b.failed.Load()
		natstest.Eventually(t, "a run", func() bool { return b.failed.Load() > failed })
		dying.kill()
	}
	b.up()
	w.work()
	natstest.Eventually(t, "all to land", seldom(func() bool {
		for _, s := range w.streams { // a copy may be parked although its report has landed: the copied message was delivered again
			if info, err := s.Info(w.Context()); err != nil || info.State.Msgs > 0 {
				return false
			}
		}
		return w.commits() == 10
	}))
	w.ends(invariant.Tally{Done: 10})
}
