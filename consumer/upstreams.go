package consumer

import (
	"sync"
	"time"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// upstreams is what this process has seen of the upstreams since it started. The letters of those that it does not remember wait for the
// schedule.
type upstreams struct {
	mu    sync.Mutex
	known hosts[upstream]
}

type upstream struct {
	failing  bool
	answers  time.Time // when it was seen to answer again, while its letters are to be replayed for that; else zero
	tryAfter time.Time // when to ask for its turn
}

// note learns from what became of a delivery whether its upstream answers. Only a committed report proves that it does. Paths have no
// upstream that could go away: that one can be read says nothing of the next.
func (c *Consumer) note(d *delivery, o Outcome) {
	if c.cfg.ReplayEvery == 0 || d.Invalid != nil {
		return
	}
	name := report.Line(d.source(), report.MaxHeaderValue)
	switch {
	case name == dlq.LocalFiles:
	case o.Kind == Succeeded:
		c.upstreams.answered(name)
	case o.Code != "" && (o.Class == "" || o.Class == report.ClassExhausted): // it did not end well, and not for what the report is
		c.upstreams.failed(name)
	}
}

// answered notes that an upstream answers. It answers again if it failed before, or is seen for the first time: nobody knows what was
// before this process.
func (u *upstreams) answered(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.remember(name, false); up != nil && up.failing {
		up.failing, up.answers = false, time.Now()
	}
}

// failed notes that an upstream does not answer: nothing is to be replayed then.
func (u *upstreams) failed(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.remember(name, true); up != nil {
		up.failing, up.answers = true, time.Time{}
	}
}

// well reports whether an upstream answered when this process saw it last.
func (u *upstreams) well(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.known[name]
	return up != nil && !up.failing
}

// remember finds an upstream, or adds it as one that fails. If there are too many, one that fails takes the place of one of which
// nothing is to be remembered; there may be none.
func (u *upstreams) remember(name string, replace bool) *upstream {
	up, added := u.known.find(name, func(other *upstream) bool { return replace && !other.failing && other.answers.IsZero() })
	if added {
		up.failing = true
	}
	return up
}

// due lists the upstreams that answer again and whose turn is to be asked for, and since when they answer.
func (u *upstreams) due() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := map[string]time.Time{}
	for name, up := range u.known {
		if !up.answers.IsZero() && time.Now().After(up.tryAfter) {
			found[name] = up.answers
		}
	}
	return found
}

// settle notes that the letters of an upstream have been seen to, unless it has failed and answered again meanwhile.
func (u *upstreams) settle(name string, since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.known[name]; up != nil && up.answers.Equal(since) {
		up.answers = time.Time{}
	}
}

// later puts the next try off.
func (u *upstreams) later(name string, d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if up := u.known[name]; up != nil {
		up.tryAfter = time.Now().Add(d)
	}
}
