package consumer

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// closed is row 4c: it reports whether the report's upstream is down and somebody else probes it, and what is known of that.
func (c *Consumer) closed(d *delivery) (stream.Parking, bool) {
	if !c.mayPark(d) {
		return stream.Parking{}, false
	}
	why, ok := c.down.enter(d.source(), d.Carried.Parking, time.Now())
	return why, !ok
}

// mayPark reports whether the report can be put aside: it has an upstream, and was not parked for too long already.
func (c *Consumer) mayPark(d *delivery) bool {
	if c.cfg.ParkMax == 0 || d.source() == dlq.LocalFiles {
		return false
	}
	p := d.Carried.Parking
	return p == nil || c.clock.now().Sub(p.Since) < c.cfg.ParkMax
}

// aside notes what an attempt has shown of its report's upstream, and reports whether the report is to be parked should it have failed
// for that: the upstream is down, or this was the last attempt and nobody knows whether another report would fare better.
func (c *Consumer) aside(d *delivery, n int, err error) bool {
	upstream, parked := d.source(), d.Carried.Parking != nil
	if c.cfg.ParkMax == 0 || upstream == dlq.LocalFiles {
		return false
	}
	var fault *report.Error
	if err != nil {
		fault = new(report.Classify(err))
	}
	down, news := c.down.leave(upstream, fault, errors.Is(err, errCut), parked, c.cfg.Backoff, time.Now())
	switch {
	case news && !down:
		c.log.Info("upstream_up", "upstream", upstream)
	case news && fault.Kind == report.KindHold:
		c.log.Error("ALARM: upstream_down: its reports are parked until somebody repairs the cause", "upstream", upstream, "code", fault.Code, "reason", report.Clean(fault.Error()))
	case news:
		c.log.Warn("upstream_down: its reports are parked", "upstream", upstream, "code", fault.Code, "reason", report.Clean(fault.Error()))
	}
	return c.mayPark(d) && (down || n == c.cfg.Queues.MaxAttempts && !parked)
}

// parkFailed is row 7e after an attempt: it parks the report without spending the attempt, and records the failure. ok is as park's.
func (c *Consumer) parkFailed(d *delivery, n int, j judgement) (o Outcome, ok bool) {
	e := attemptFailed(d, n, j, c.cfg.Worker)
	e.Kind, e.Delay = audit.Parked, ""
	d.Carried.FirstFailedAt = earlier(e.Time, d.Carried.FirstFailedAt)
	if o, ok = c.park(d, n-1, stream.Parking{Upstream: d.source(), Code: j.code, Reason: j.reason}, false); !ok {
		return o, false
	}
	if err := c.trail.AppendAsync(e); err != nil {
		d.log().Warn("failed attempt not recorded", "err", err)
	}
	return o, true
}

// park is row 7e: it puts the report aside for a while. It holds no worker and no delivery meanwhile. spent is how many
// attempts it has behind it; a suspect stays one unless it was tried. It is not ok if the server has not done it: then the report takes its way
// as if nothing were ever parked.
func (c *Consumer) park(d *delivery, spent int, why stream.Parking, suspect bool) (o Outcome, ok bool) {
	now := c.clock.now()
	why.Since = now
	carried := d.Carried
	if p := carried.Parking; p != nil {
		why.Since = p.Since
	}
	carried.PublishedAt, carried.StandsFor, carried.Attempts, carried.Parking = d.PublishedAt, d.Identity, spent, &why
	carried.Suspect = suspect
	delay := parkDelay(now.Sub(why.Since), c.cfg.Backoff, rand.Float64)
	switch other, err := c.putBack(d, carried, now.Add(delay)); {
	case err != nil:
		d.log().Warn("not parked", "err", err)
		return Outcome{}, false
	case other.Kind != "":
		return other, true
	}
	d.tell(slog.LevelInfo, "report_parked", slog.Int("attempt", spent), slog.String("upstream", why.Upstream),
		slog.String("delay", delay.Round(time.Second).String()), slog.String("code", string(why.Code)), slog.String("reason", why.Reason))
	return Outcome{Kind: Parked, Key: d.Key, SiteID: d.Event.SiteID, Attempts: spent, Code: why.Code, Reason: why.Reason}, true
}
