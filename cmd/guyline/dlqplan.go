package main

import (
	"fmt"
	"time"

	"github.com/guyline/guyline/dlq"
)

// printPlan prints what a replay would do.
func (a *app) printPlan(p dlq.Plan, f replayFlags) error {
	landed := 0
	for _, c := range p.Send {
		landed += btoi(c.Landed)
	}
	takes := time.Duration(0)
	if f.perSecond > 0 && len(p.Send) > 0 {
		takes = time.Duration(min(float64(len(p.Send)-1)/f.perSecond, 1e9) * float64(time.Second)).Round(time.Second)
	}
	if a.json {
		return a.printJSON(struct {
			Matched     int         `json:"matched"`
			Replay      int         `json:"replay"`
			Landed      int         `json:"landed"`
			Quarantined int         `json:"quarantined"`
			DueSoon     int         `json:"due_within_48h"`
			Seconds     float64     `json:"seconds,omitempty"`
			Causes      []dlq.Cause `json:"causes"`
		}{p.Matched, len(p.Send) - landed, p.Landed, p.Quarantined, p.DueSoon, takes.Seconds(), append([]dlq.Cause{}, p.Causes...)})
	}
	t := newTable(a.stdout)
	t.row("matched", fmt.Sprint(p.Matched))
	t.row("to replay", fmt.Sprint(len(p.Send)-landed))
	t.row("due soon", fmt.Sprint(p.DueSoon), "of those to replay, within 48 hours or overdue")
	t.row("landed", fmt.Sprint(p.Landed), "the ledger has the result; only the letter would be closed")
	t.row("quarantined", fmt.Sprint(p.Quarantined), fmt.Sprintf("replayed %d times or more; left alone", a.cfg.ReplayMax))
	if left := p.Matched - p.Quarantined - len(p.Send); left > 0 {
		t.row("left", fmt.Sprint(left), "over the limit")
	}
	if f.perSecond > 0 {
		t.row("takes", takes.String(), fmt.Sprintf("at %g a second", f.perSecond))
	} else {
		t.row("takes", "?", "as fast as the server takes them; --rate limits it")
	}
	if err := t.flush(); err != nil {
		return err
	}
	if len(p.Causes) > 0 {
		fmt.Fprintln(a.stdout)
		t = newTable(a.stdout, "COUNT", "CLASS", "CODE", "UPSTREAM")
		for _, c := range p.Causes {
			t.row(fmt.Sprint(c.Count), string(c.Class), string(c.Code), c.Upstream)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.stdout, "\nnothing was sent")
	return err
}

// printReplayed prints what became of a replay; left is how many letters were not begun.
func (a *app) printReplayed(tally dlq.Tally, p dlq.Plan, left int) error {
	if a.json {
		return a.printJSON(struct {
			Matched      int                 `json:"matched"`
			Outcomes     map[dlq.Outcome]int `json:"outcomes"`
			Quarantined  int                 `json:"quarantined"` // when it was planned
			CanaryLanded int                 `json:"canary_landed,omitempty"`
			CanaryDied   int                 `json:"canary_died,omitempty"`
			Stopped      string              `json:"stopped,omitempty"`
			Left         int                 `json:"left"`
		}{p.Matched, tally.ByOutcome, p.Quarantined, tally.CanaryLanded, tally.CanaryDied, tally.Stopped, left})
	}
	t := newTable(a.stdout)
	tally.ByOutcome[dlq.Quarantined] += p.Quarantined
	a.outcomeRows(t, tally.ByOutcome)
	if tally.CanaryLanded+tally.CanaryDied > 0 {
		t.row("canary", fmt.Sprintf("%d of %d", tally.CanaryLanded, tally.CanaryLanded+tally.CanaryDied), "have landed")
	}
	if left > 0 {
		t.row("left", fmt.Sprint(left), "not begun")
	}
	return t.flush()
}

// outcomeRows prints how many letters came to each end.
func (a *app) outcomeRows(t table, counts map[dlq.Outcome]int) {
	for _, o := range []struct {
		outcome dlq.Outcome
		meaning string
	}{
		{dlq.Replayed, "in the queue again"},
		{dlq.Discarded, "given up"},
		{dlq.Recovered, "had landed already; the letter is closed"},
		{dlq.Busy, "another copy is in the queue; the letter stays"},
		{dlq.Quarantined, fmt.Sprintf("replayed %d times or more; the letter stays", a.cfg.ReplayMax)},
		{dlq.Unreadable, "letter, ledger or trail hold something strange; the letter stays: see `guyline dlq verify`, `guyline audit log KEY`"},
		{dlq.Gone, "somebody else was faster"},
	} {
		if n := counts[o.outcome]; n > 0 {
			t.row(string(o.outcome), fmt.Sprint(n), o.meaning)
		}
	}
}
