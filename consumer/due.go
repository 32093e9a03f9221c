package consumer

import (
	"sync"
	"time"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// mostDue bounds how many letters a process remembers to have warned of. With more of them nobody reads further lines.
const mostDue = 10_000

// dueWarnings is the letters of whose deadline this process has warned, by sequence.
type dueWarnings struct {
	mu   sync.Mutex
	said map[uint64]bool // true: met since the sweep last began with the first letter
}

// warn logs, once per letter, that a dead report is due within Config.DueWarn, or overdue.
func (w *dueWarnings) warn(c *Consumer, l dlq.Letter, now time.Time) {
	if c.cfg.DueWarn == 0 || l.Due.IsZero() || l.Due.Sub(now) > c.cfg.DueWarn || !w.first(l.Sequence) {
		return
	}
	c.log.Warn("dead_letter_due", "site", report.Line(l.SiteID(), report.MaxHeaderValue), "key", l.Key.Short(), "due", l.Due,
		"code", report.Line(string(l.Code), report.MaxHeaderValue), "reason", report.Line(l.Reason, report.MaxReason))
}

// first reports whether a letter is met for the first time, and remembers that it was met.
func (w *dueWarnings) first(sequence uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, before := w.said[sequence]
	if !before && len(w.said) >= mostDue {
		return false
	}
	if w.said == nil {
		w.said = map[uint64]bool{}
	}
	w.said[sequence] = true
	return !before
}

// forget is called when the sweep has met every letter: those that it has not met are gone.
func (w *dueWarnings) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sequence, met := range w.said {
		if met {
			w.said[sequence] = false
		} else {
			delete(w.said, sequence)
		}
	}
}
