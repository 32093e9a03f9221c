package stream

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/report"
)

// Carried is what a requeued copy remembers of the report's past.
type Carried struct {
	PublishedAt   time.Time
	FirstFailedAt time.Time
	Replays       int    // how often it was replayed
	ReplayOf      uint64 // sequence of the letter that this copy replays; 0 = none
	Reopened      uint64 // revision of the ledger entry that `reprocess` reopened; 0 = none
	Attempts      int    // attempts already spent
	StandsFor     Ref    // the message that was in hand when this copy was made; zero on a replay
	Verdict       *Verdict
	Suspect       bool     // a delivery of it ended without a verdict, as if it had taken its worker down
	Parking       *Parking // set if the report is, or was last, parked
}

// Parking is why a report was put aside.
type Parking struct {
	Since    time.Time // when it was parked first
	Upstream string    // scheme://host that is down
	Code     report.Code
	Reason   string // clean
}

// Verdict is a judgement that could not be carried out where it was made.
type Verdict struct {
	Class    report.Class
	Code     report.Code
	Reason   string // clean
	FailedAt time.Time
}

func (c Carried) write(h nats.Header) {
	set(h, report.HeaderPublishedAt, report.FormatTime(c.PublishedAt))
	set(h, report.HeaderFirstFailedAt, report.FormatTime(c.FirstFailedAt))
	set(h, report.HeaderReplays, number(uint64(c.Replays)))
	set(h, report.HeaderReplayOf, number(c.ReplayOf))
	set(h, report.HeaderReopened, number(c.Reopened))
	set(h, report.HeaderAttempts, number(uint64(c.Attempts)))
	if c.StandsFor.Stream != "" {
		set(h, report.HeaderStream, c.StandsFor.Stream)
		set(h, report.HeaderStreamSequence, number(c.StandsFor.Sequence))
	}
	if c.Suspect {
		h.Set(report.HeaderSuspect, "true")
	}
	if p := c.Parking; p != nil {
		set(h, report.HeaderParkedSince, report.FormatTime(p.Since))
		set(h, report.HeaderUpstream, report.Line(p.Upstream, report.MaxHeaderValue))
		set(h, report.HeaderCode, string(p.Code))
		set(h, report.HeaderReason, p.Reason)
	}
	if v := c.Verdict; v != nil {
		set(h, report.HeaderClass, string(v.Class))
		set(h, report.HeaderCode, string(v.Code))
		set(h, report.HeaderReason, v.Reason)
		set(h, report.HeaderFailedAt, report.FormatTime(v.FailedAt))
	}
}

func readCarried(h nats.Header) Carried {
	c := Carried{
		PublishedAt:   report.ParseTime(h.Get(report.HeaderPublishedAt)),
		FirstFailedAt: report.ParseTime(h.Get(report.HeaderFirstFailedAt)),
		Replays:       int(count(h.Get(report.HeaderReplays))),
		ReplayOf:      count(h.Get(report.HeaderReplayOf)),
		Reopened:      count(h.Get(report.HeaderReopened)),
		Attempts:      int(count(h.Get(report.HeaderAttempts))),
		Suspect:       h.Get(report.HeaderSuspect) == "true",
	}
	if s := h.Get(report.HeaderStream); s == Reports || s == Requeued {
		c.StandsFor = Ref{s, count(h.Get(report.HeaderStreamSequence))}
	}
	if since := report.ParseTime(h.Get(report.HeaderParkedSince)); !since.IsZero() {
		c.Parking = &Parking{
			Since: since, Upstream: report.Line(h.Get(report.HeaderUpstream), report.MaxHeaderValue),
			Code: report.Code(h.Get(report.HeaderCode)), Reason: report.Clean(h.Get(report.HeaderReason)),
		}
	}
	switch class := report.Class(h.Get(report.HeaderClass)); class {
	case report.ClassPoison, report.ClassExhausted, report.ClassAbandoned:
		c.Verdict = &Verdict{
			Class: class, Code: report.Code(h.Get(report.HeaderCode)), Reason: report.Clean(h.Get(report.HeaderReason)),
			FailedAt: report.ParseTime(h.Get(report.HeaderFailedAt)),
		}
	}
	return c
}

func set(h nats.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// count reads a number of ours; anything else is 0.
func count(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0
	}
	return n
}
