package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/report"
)

const (
	shownRepeats = 3
	shownUnknown = 5
	shownCauses  = 10
	soon         = 24 * time.Hour
)

// standings is what the morning report says of a list as a whole. Rows that repeat another or are wrong are not in it.
type standings struct {
	of      map[fate.Fate]int
	parked  int
	late    int // done after the deadline
	causes  map[cause]*deaths
	unknown []morningRow // the first few
	open    []deadline   // not done, with a deadline
}

// cause is what dead reports have in common.
type cause struct {
	class report.Class
	code  report.Code
}

type deaths struct {
	cause
	n       int
	nextDue time.Time
	sample  string
}

// deadline is one of a report that is not done.
type deadline struct {
	due  time.Time
	line int
	fate fate.Fate
	site string
	uri  string
	key  report.Key
}

func (t *standings) add(r morningRow, now time.Time) {
	if t.of == nil {
		t.of, t.causes = map[fate.Fate]int{}, map[cause]*deaths{}
	}
	if r.Err != nil || r.repeats > 0 {
		return
	}
	t.of[r.Fate]++
	e := r.Event
	if r.Fate == fate.Done {
		if r.missed(now) {
			t.late++
		}
		return
	}
	if !r.due.IsZero() {
		t.open = append(t.open, deadline{r.due, r.Line, r.Fate, e.SiteID, e.SourceURI, e.Key()})
	}
	switch r.Fate {
	case fate.Waiting:
		if r.Parked {
			t.parked++
		}
	case fate.Unknown:
		if len(t.unknown) < shownUnknown {
			t.unknown = append(t.unknown, r)
		}
	case fate.Dead:
		t.cause(r)
	}
}

func (t *standings) cause(r morningRow) {
	c := cause{r.Class, r.Code}
	g := t.causes[c]
	if g == nil {
		g = &deaths{cause: c, sample: r.Event.Key().Short() + "  " + report.Line(r.Event.SiteID, 40) + ": " + report.Line(r.Reason, 120)}
		t.causes[c] = g
	}
	if g.n++; !r.due.IsZero() && (g.nextDue.IsZero() || r.due.Before(g.nextDue)) {
		g.nextDue = r.due
	}
}

// count reads the list again.
func (m *morning) count() error {
	err := m.rows(func(r morningRow) error {
		m.counts.add(r, m.now)
		return nil
	})
	slices.SortStableFunc(m.counts.open, func(x, y deadline) int { return x.due.Compare(y.due) })
	return err
}

// printMorning prints the report for a person: how many have which fate, why the dead are dead, what the deadlines
// say, and what to do. With due, the reports behind the deadlines take its place.
func (a *app) printMorning(m *morning, name string, due bool) error {
	if due {
		return a.printDue(m)
	}
	c, list := &m.counts, report.Line(name, 200)
	if name == "-" {
		list = "standard input"
	}
	fmt.Fprintf(a.stdout, "%s of %s at %s\n", reports(len(m.refs)), list, m.now.UTC().Format(time.RFC3339))
	for _, r := range m.repeats {
		fmt.Fprintf(a.stdout, "line %d repeats line %d and is not counted again\n", r.line, r.first)
	}
	if more := m.again - len(m.repeats); more > 0 {
		fmt.Fprintf(a.stdout, "... and so do %s more lines\n", humanize.Comma(int64(more)))
	}
	never := "never handed over under this site and source"
	if kept := m.found.Forgets; kept > 0 {
		never += "; or settled more than " + fate.Days(kept) + " ago, and forgotten"
	}
	t := newTable(a.stdout)
	for _, row := range []struct {
		fate    fate.Fate
		meaning string
	}{
		{fate.Done, "settled" + also(c.late, "after the deadline")},
		{fate.Waiting, "in a queue, in work or between two attempts" + also(c.parked, "parked for later")},
		{fate.Dead, "in the dead-letter queue"},
		{fate.Discarded, "given up by a person"},
		{fate.Unknown, never},
	} {
		t.row("  "+string(row.fate), humanize.Comma(int64(c.of[row.fate])), row.meaning)
	}
	if m.list.bad > 0 {
		t.row("  wrong rows", humanize.Comma(m.list.bad), "not reports; said above")
	}
	if m.found.Moved > 0 {
		t.row("  moved", humanize.Comma(int64(m.found.Moved)), "were on their way during this run, and are counted where they were seen last")
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := a.printCauses(c); err != nil {
		return err
	}
	a.printUnknown(c)
	a.printDeadlines(m)
	a.printNext(m, name)
	return nil
}

// also adds a part to what is said of a whole.
func also(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s %s", humanize.Comma(int64(n)), what)
}

func reports(n int) string {
	if n == 1 {
		return "1 report"
	}
	return humanize.Comma(int64(n)) + " reports"
}

func (a *app) printCauses(c *standings) error {
	if len(c.causes) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	groups := make([]*deaths, 0, len(c.causes))
	for _, g := range c.causes {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(x, y *deaths) int {
		return cmp.Or(y.n-x.n, cmp.Compare(x.class, y.class), cmp.Compare(x.code, y.code))
	})
	t := newTable(a.stdout, "DEAD", "CLASS", "CODE", "NEXT DUE", "FOR EXAMPLE")
	for i, g := range groups {
		if i == shownCauses {
			t.row("", "", fmt.Sprintf("... and %d more causes", len(groups)-i))
			break
		}
		t.row(humanize.Comma(int64(g.n)), string(g.class), string(g.code), short(g.nextDue), g.sample)
	}
	return t.flush()
}

func (a *app) printUnknown(c *standings) {
	if len(c.unknown) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, "\nUNKNOWN")
	for _, r := range c.unknown {
		line := fmt.Sprintf("line %d: %s %s", r.Line, report.Line(r.Event.SiteID, 128), report.Line(report.RedactSource(r.Event.SourceURI), 200))
		if r.Reason != "" {
			line += ": " + r.Reason
		}
		fmt.Fprintln(a.stdout, report.Line(line, 500))
	}
	if more := c.of[fate.Unknown] - len(c.unknown); more > 0 {
		fmt.Fprintf(a.stdout, "... and %s more: --json lists them\n", humanize.Comma(int64(more)))
	}
}

func (a *app) printDeadlines(m *morning) {
	var over, near int
	for _, d := range m.counts.open {
		switch {
		case m.now.After(d.due):
			over++
		case d.due.Before(m.now.Add(soon)):
			near++
		}
	}
	if len(m.counts.open) == 0 {
		return
	}
	first := m.counts.open[0]
	if over == 0 {
		if near == 0 {
			fmt.Fprintf(a.stdout, "\nDEADLINES  no report is overdue; the first of those not done is due %s\n", when(first.due))
			return
		}
		fmt.Fprintf(a.stdout, "\nDEADLINES  no report is overdue; %s due within 24 hours and not done, the first %s\n", areReports(near), when(first.due))
		return
	}
	fmt.Fprintf(a.stdout, "\nDEADLINES  %s overdue, the first since %s; %d more are due within 24 hours\n", areReports(over), short(first.due), near)
}

func areReports(n int) string {
	if n == 1 {
		return "1 report is"
	}
	return reports(n) + " are"
}

// printNext says what to do, only what applies.
func (a *app) printNext(m *morning, name string) {
	c := &m.counts
	if m.allDone() {
		fmt.Fprintln(a.stdout, "\nall done; there is nothing to do")
		return
	}
	fmt.Fprintln(a.stdout, "\nNEXT")
	if n := len(c.open); n > 0 {
		fmt.Fprintln(a.stdout, "  `guyline reconcile --due` with this list names what is most urgent")
	}
	if c.of[fate.Dead] > 0 {
		fmt.Fprintln(a.stdout, "  dead: `guyline dlq show KEY` tells why; repair the cause, then `guyline dlq replay` with the KEY or --code CODE, or `guyline dlq discard`")
	}
	if c.of[fate.Waiting] > 0 {
		fmt.Fprintln(a.stdout, "  waiting: `guyline status` tells whether workers are at it; without any, `guyline run` is one")
	}
	if c.of[fate.Unknown] > 0 {
		fmt.Fprintf(a.stdout, "  unknown: compare site and source with what was published; to hand them over, `guyline publish %s`: what is known is recognised\n", quoted(name))
	}
	if m.list.bad > 0 {
		fmt.Fprintln(a.stdout, "  wrong rows: correct them in the list, then publish it")
	}
}

// quoted is a file name that can be copied into a shell, as far as a plain quote does it.
func quoted(name string) string {
	if name = report.Line(name, 200); name == "-" || strings.ContainsAny(name, " '\"$`\\&;|<>()*?[]#~!") {
		return "LIST"
	}
	return name
}

func (a *app) printDue(m *morning) error {
	if len(m.counts.open) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no report with a deadline is left to do")
		return err
	}
	t := newTable(a.stdout, "DUE", "", "FATE", "LINE", "KEY", "SITE", "SOURCE")
	for _, d := range m.counts.open {
		t.row(short(d.due), humanize.RelTime(d.due, m.now, "ago", "from now"), string(d.fate), fmt.Sprint(d.line), d.key.Short(), d.site, report.RedactSource(d.uri))
	}
	return t.flush()
}
