package consumer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

type step int

const (
	commit step = iota
	retry
	park
	bury
	handBack
)

// judgement is what follows from one attempt.
type judgement struct {
	step   step
	delay  time.Duration // of retry
	class  report.Class  // of bury
	code   report.Code   // of retry, park and bury
	reason string        // of retry, park and bury; clean
	held   bool          // our own configuration or a whole host is at fault
}

// errCut is what becomes of any error that an attempt returns after a stop has cut its context.
var errCut = errors.New("the attempt was cut by a stop")

// judge decides what follows from an attempt's error, nil meaning that there is a result. n is the number of the
// attempt, from 1. aside says that the report can be parked, as its upstream is down or this attempt was its last. It is pure: the
// random source yields numbers in [0, 1).
func judge(err error, n, max int, aside bool, b report.Backoff, random func() float64) judgement {
	switch {
	case err == nil:
		return judgement{step: commit}
	case errors.Is(err, errCut):
		return judgement{step: handBack}
	}
	fault := report.Classify(err)
	j := judgement{code: fault.Code, reason: report.Clean(err.Error()), held: fault.Kind == report.KindHold}
	switch {
	case fault.Kind == report.KindPoison:
		j.step, j.class = bury, report.ClassPoison
	case aside && fault.Outage():
		j.step = park
	case n >= max:
		j.step, j.class = bury, report.ClassExhausted
		j.reason = report.Clean(fmt.Sprintf("exhausted %d attempts: %s", n, j.reason))
	case fault.Kind == report.KindHold:
		j.step, j.delay = retry, b.Delay(n, b.Max, random)
	default:
		j.step, j.delay = retry, b.Delay(n, fault.Delay, random)
	}
	return j
}

func (j judgement) verdict(at time.Time) stream.Verdict {
	return stream.Verdict{Class: j.class, Code: j.code, Reason: j.reason, FailedAt: at}
}

// unreadable is the verdict on an event that cannot be decoded or breaks a rule.
func unreadable(m stream.Message, at time.Time) stream.Verdict {
	code := report.CodeUndecodable
	if errors.Is(m.Invalid, report.ErrInvalid) {
		code = report.CodeInvalidEvent
	}
	return stream.Verdict{Class: report.ClassPoison, Code: code, Reason: report.Clean(m.Invalid.Error()), FailedAt: at}
}

// unknownSite is the verdict on a report of a site that the registry does not name.
func unknownSite(m stream.Message, at time.Time) stream.Verdict {
	return stream.Verdict{
		Class: report.ClassPoison, Code: report.CodeUnknownSite, FailedAt: at,
		Reason: report.Clean(fmt.Sprintf("site %s is not in the registry", m.Event.SiteID)),
	}
}

// abandoned is the verdict on a report that no delivery is left for, as at least the last of so many ended without one.
func abandoned(deliveries int, p audit.Pass, at time.Time) stream.Verdict {
	reason := fmt.Sprintf("abandoned: %d of %d deliveries ended without a verdict, as if the worker had died",
		max(1, deliveries-p.Failed), deliveries)
	if len(p.Alone) > 0 {
		reason += "; tried alone by " + strings.Join(p.Alone, ", ")
	}
	return stream.Verdict{Class: report.ClassAbandoned, Code: report.CodeAbandoned, FailedAt: at, Reason: report.Clean(reason)}
}
