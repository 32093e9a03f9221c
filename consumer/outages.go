package consumer

import (
	"sync"
	"time"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// failuresInARow of one upstream, over all reports of this process, make it count as down.
const failuresInARow = 3

// outages is what this process has seen of each upstream (scheme://host): a breaker for each. An upstream is down after a hold or after
// a few outages in a row, and up again after any other answer. While it is down one report at a time probes it, after a pause.
// Processes share what they know through the parked reports themselves, which say what is down.
type outages struct {
	mu sync.Mutex
	of hosts[outage]
}

type outage struct {
	failures int       // in a row
	since    time.Time // when it was first seen down; zero if it is up
	probeAt  time.Time // earliest time of the next probe
	probing  bool
	why      stream.Parking // the last failure
}

// enter asks whether a report of an upstream may be tried now; if so, leave must follow. Otherwise it returns why not. parked is what a
// report that was parked says of its upstream: a process that has not seen the upstream yet believes it, and probes.
func (o *outages) enter(upstream string, parked *stream.Parking, now time.Time) (why stream.Parking, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.of[upstream]
	if u == nil && parked != nil {
		if u = o.find(upstream); u != nil {
			u.since, u.probeAt, u.why = now, now, *parked
		}
	}
	if u == nil || u.since.IsZero() {
		return stream.Parking{}, true
	}
	if u.probing || now.Before(u.probeAt) {
		return u.why, false
	}
	u.probing = true
	return stream.Parking{}, true
}

// leave notes how a try has ended and reports whether the upstream is down now, and whether that is news. A nil fault means that the
// upstream has answered; one that is no outage means so too, except that an attempt which was cut says nothing. parked says that
// the report was parked before: if others were answered since, the fault may be its own, and one hold does not take the upstream down.
func (o *outages) leave(upstream string, fault *report.Error, cut, parked bool, b report.Backoff, now time.Time) (down, news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.find(upstream)
	if u == nil {
		return false, false
	}
	u.probing = false
	was := !u.since.IsZero()
	switch {
	case cut:
		return was, false
	case fault == nil || !fault.Outage():
		*u = outage{}
		return false, was
	}
	u.failures++
	u.why = stream.Parking{Upstream: upstream, Code: fault.Code, Reason: report.Clean(fault.Error())}
	if !was && u.failures < failuresInARow && (fault.Kind != report.KindHold || parked) {
		return false, false
	}
	if !was {
		u.since = now
	}
	u.probeAt = now.Add(min(max(now.Sub(u.since)/4, b.Base), b.Max))
	return true, !was
}

// find is the upstream, remembered from now on. What is down is not forgotten for what is up; nil if nothing else is remembered.
func (o *outages) find(upstream string) *outage {
	u, _ := o.of.find(upstream, func(u *outage) bool { return u.since.IsZero() })
	return u
}

// parkDelay is how long to park a report that was parked first so long ago: half that time, and between one and two times as long so that
// they do not all come back at once. Schedules count in seconds.
func parkDelay(since time.Duration, b report.Backoff, random func() float64) time.Duration {
	d := min(max(since/2, b.Base, time.Second), max(b.Max, time.Second))
	return d + time.Duration(random()*float64(d))
}
