package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/guyline/guyline/report"
)

// hurry is how long the reports of a batch wait for one that does not come back. To start goroutines for each report would cost a light
// handler more than all that is done to read it; beside a slow one the wait is nothing.
const hurry = time.Millisecond

// batch is reports that arrived together. One goroutine works them one after the other, for as long as none keeps it; then others
// help, twice as many after each further wait, so that soon every report that takes time has its own.
type batch struct {
	mu      sync.Mutex
	waiting []*delivery
	working int // goroutines
}

// arrivals are reports in hand that wait to be looked up.
type arrivals struct {
	mu      sync.Mutex
	waiting []*delivery
	looking int // look-ups on their way
}

// mostLooking bounds the look-ups on their way. What arrives meanwhile is looked up together: reports that come one by one, as those do
// whose retry is due, would cost the server as many requests as reports.
const mostLooking = 2

// start works reports in hand that have arrived together.
func (c *Consumer) start(reports []*delivery) {
	a := &c.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, reports...)
	if a.looking < mostLooking {
		a.looking++
		c.inWork.Go(c.lookUp)
	}
}

// lookUp looks up what waits, and starts to work it, until nothing waits.
func (c *Consumer) lookUp() {
	for reports := c.arrivals.next(); len(reports) > 0; reports = c.arrivals.next() {
		c.lookAhead(reports)
		c.inWork.Go(func() { c.begin(reports) })
	}
}

// next takes what waits, as much as a pull may bring. If that is nothing, the look-up ends.
func (a *arrivals) next() (reports []*delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.waiting), mostPulled)
	reports, a.waiting = a.waiting[:n:n], a.waiting[n:]
	if len(a.waiting) == 0 {
		a.waiting = nil // or its array would keep what was worked
	}
	if n == 0 {
		a.looking--
	}
	return reports
}

// begin works reports that were looked up together. One that was delivered before has its own goroutine at once: it waits for the
// server (row 3b).
func (c *Consumer) begin(reports []*delivery) {
	c.inflight.begin(reports, c.cfg.Queues.MaxAttempts)
	b := &batch{working: 1}
	for _, d := range reports {
		if d.again() && len(reports) > 1 {
			c.inWork.Go(func() { c.run(&batch{waiting: []*delivery{d}}) })
		} else {
			b.waiting = append(b.waiting, d)
		}
	}
	if len(b.waiting) > 1 {
		time.AfterFunc(hurry, func() { c.help(b) })
	}
	c.run(b)
}

// run works what waits, one report after the other.
func (c *Consumer) run(b *batch) {
	h := &handlers{all: &c.inWork}
	defer h.close()
	for d := b.next(); d != nil; d = b.next() {
		d.handlers = h
		c.finish(d, c.process(d))
	}
}

func (b *batch) next() *delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	d := b.waiting[0]
	b.waiting = b.waiting[1:]
	return d
}

// help doubles the goroutines of a batch, and looks again after a while, until nothing of it waits.
func (c *Consumer) help(b *batch) {
	b.mu.Lock()
	defer b.mu.Unlock() // not before all have been started: what waits is in hand, so nobody has stopped waiting for the work to end
	n := min(b.working, len(b.waiting))
	if n == 0 {
		return
	}
	b.working += n
	for range n {
		c.inWork.Go(func() { c.run(b) })
	}
	time.AfterFunc(hurry, func() { c.help(b) })
}

// handlers runs handlers one after the other, in a goroutine that can be left alone if one does not return.
type handlers struct {
	all     *sync.WaitGroup
	calls   chan func() (report.Result, error)
	returns chan returned
	clock   *time.Timer // of the attempt that is waited for
}

// returned is what a handler has returned, if it has.
type returned struct {
	result report.Result
	err    error
	ended  bool // it has ended its goroutine instead
}

// call begins to run a handler; what it returns comes on the channel. Whoever does not wait for that must leave the goroutine alone.
func (h *handlers) call(f func() (report.Result, error)) <-chan returned {
	if h.calls == nil {
		calls, returns := make(chan func() (report.Result, error)), make(chan returned, 1)
		h.calls, h.returns = calls, returns
		h.all.Go(func() {
			running := false
			defer func() {
				if running {
					returns <- returned{ended: true}
				}
			}()
			for f := range calls {
				running = true
				result, err := f()
				running = false
				returns <- returned{result: result, err: err}
			}
		})
	}
	h.calls <- f
	return h.returns
}

// wait waits for what a handler returns, until its time is over or ctx ends.
func (h *handlers) wait(ctx context.Context, returns <-chan returned, timeout time.Duration) (r returned, ok bool) {
	if h.clock == nil {
		h.clock = time.NewTimer(timeout)
	} else {
		h.clock.Reset(timeout)
	}
	defer h.clock.Stop()
	select {
	case r = <-returns:
		return r, true
	case <-ctx.Done():
	case <-h.clock.C:
	}
	return r, false
}

// leave lets the goroutine end when its handler has: the next call has another.
func (h *handlers) leave() {
	close(h.calls)
	h.calls = nil
}

func (h *handlers) close() {
	if h.calls != nil {
		h.leave()
	}
}
