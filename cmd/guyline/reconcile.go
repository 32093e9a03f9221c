package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/report"
)

func (a *app) reconcileCommand() *cobra.Command {
	var due bool
	cmd := &cobra.Command{
		Use:   "reconcile {FILE|-}",
		Short: "Tell where each report of a list stands",
		Long: "Tell where each report of a list stands: the morning report of an overnight batch. The list is one that `guyline publish` takes.\n" +
			"Exit code 3 says that not all of it is done. Wrong rows are told and cannot be done; a row that repeats an earlier one is counted once.\n" +
			"With --json it prints one line for each row of the list, in its order, and the counts go to standard error.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			list, err := a.openList(ctx, args[0], true)
			if err != nil {
				return err
			}
			defer list.Close()
			m, err := readMorning(list)
			if err != nil {
				return err
			}
			if err := a.reconcile(ctx, m); err != nil {
				return err
			}
			if a.json {
				err = a.printFates(m, due)
			} else if err = m.count(); err == nil {
				err = a.printMorning(m, args[0], due)
			}
			if err == nil && !m.allDone() {
				err = errPerson
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&due, "due", false, "list the reports with a deadline that are not done, the most urgent first (with --json: only those rows)")
	return cmd
}

// morning is a list and where its reports stand. It holds each report's key, and reads the list again for the rest.
type morning struct {
	list    publication
	refs    []report.Ref       // of the reports, without repeats
	at      map[report.Key]int // index in refs
	lines   []int              // where each report is first
	repeats []repeat           // the first few
	again   int                // how many there are

	found  fate.Reconciliation
	now    time.Time
	counts standings
}

// repeat is a row that names the report of an earlier one.
type repeat struct{ line, first int }

func readMorning(list publication) (*morning, error) {
	m := &morning{list: list, at: make(map[report.Key]int, list.total)}
	for row := range list.rows {
		if row.Err != nil {
			return nil, row.Err
		}
		ref := row.Event.Ref()
		if i, seen := m.at[ref.Key]; seen {
			if m.again++; m.again <= shownRepeats {
				m.repeats = append(m.repeats, repeat{row.Line, m.lines[i]})
			}
			continue
		}
		m.at[ref.Key] = len(m.refs)
		m.refs, m.lines = append(m.refs, ref), append(m.lines, row.Line)
	}
	return m, nil
}

func (m *morning) allDone() bool { return m.counts.of[fate.Done] == len(m.refs) && m.list.bad == 0 }

// reconcile asks the store, which is let go before anything is printed.
func (a *app) reconcile(ctx context.Context, m *morning) error {
	s, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer s.Close()
	var (
		bar progress
		now string
	)
	m.found, err = s.finder.Reconcile(ctx, m.refs, func(what string, n, total int) {
		if what != now {
			bar.end()
			now, bar = what, a.startProgress(what, int64(max(1, total)))
		}
		bar.to(int64(n), int64(max(n, total)))
	})
	bar.end()
	if ctx.Err() != nil {
		return errors.New("interrupted; reconciling changes nothing: run it again")
	}
	m.now = time.Now()
	return err
}

var errListChanged = errors.New("the list has changed while it was read: run it again")

// morningRow is one row of the list, and where its report stands.
type morningRow struct {
	report.Row
	fate.Standing
	due     time.Time // as the list says, or else as it was handed over
	repeats int       // line of the row that it repeats, or 0
}

// missed reports whether the deadline was over before the report was done.
func (r morningRow) missed(now time.Time) bool {
	if r.Fate == fate.Done {
		now = r.Since
	}
	return !r.due.IsZero() && now.After(r.due)
}

// rows reads the list again and calls do for each row, also the wrong ones, which have no fate.
func (m *morning) rows(do func(morningRow) error) error {
	for row, err := range m.list.read() {
		if err != nil {
			return fmt.Errorf("read the list again: %w", err)
		}
		r := morningRow{Row: row}
		if row.Err == nil {
			i, ok := m.at[row.Event.Key()]
			if !ok || row.Line < m.lines[i] {
				return errListChanged
			}
			r.Standing = m.found.Standings[i]
			if r.due = row.Event.Due; r.due.IsZero() {
				r.due = r.Due
			}
			if row.Line > m.lines[i] {
				r.repeats = m.lines[i]
			}
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// printFates prints a JSON line for each row, and the counts to standard error.
func (a *app) printFates(m *morning, due bool) error {
	err := m.rows(func(r morningRow) error {
		m.counts.add(r, m.now)
		if due && (r.Fate == "" || r.Fate == fate.Done || r.due.IsZero()) {
			return nil
		}
		return a.printJSON(newRowLine(r, m.now))
	})
	if err != nil {
		return err
	}
	c := &m.counts
	a.say("%d reports: %d done, %d waiting, %d dead, %d discarded, %d unknown; %d rows repeat another, %d rows are wrong, %d reports moved meanwhile",
		len(m.refs), c.of[fate.Done], c.of[fate.Waiting], c.of[fate.Dead], c.of[fate.Discarded], c.of[fate.Unknown], m.again, m.list.bad, m.found.Moved)
	return nil
}

// rowLine is a row as JSON.
type rowLine struct {
	Line      int          `json:"line"`
	SiteID    string       `json:"site_id,omitempty"`
	SourceURI string       `json:"source_uri,omitempty"`
	Key       report.Key   `json:"key,omitempty"`
	Fate      fate.Fate    `json:"fate,omitempty"`
	Parked    bool         `json:"parked,omitempty"`
	Due       time.Time    `json:"due,omitzero"`
	Missed    bool         `json:"missed_due,omitempty"` // the deadline is over, or was when the report was done
	Settled   time.Time    `json:"settled,omitzero"`
	Died      time.Time    `json:"died,omitzero"`
	GivenUp   time.Time    `json:"discarded,omitzero"`
	Class     report.Class `json:"class,omitempty"`
	Code      report.Code  `json:"code,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Actor     string       `json:"actor,omitempty"`
	Repeats   int          `json:"repeats_line,omitempty"`
	Error     string       `json:"error,omitempty"` // what is wrong with the row
}

func newRowLine(r morningRow, now time.Time) rowLine {
	if r.Err != nil {
		return rowLine{Line: r.Line, Error: report.Clean(r.Err.Error())}
	}
	l := rowLine{
		Line: r.Line, SiteID: r.Event.SiteID, SourceURI: r.Event.SourceURI, Key: r.Event.Key(), Fate: r.Fate, Parked: r.Parked, Due: r.due,
		Missed: r.missed(now), Class: r.Class, Code: r.Code, Reason: r.Reason, Actor: r.Actor, Repeats: r.repeats,
	}
	switch r.Fate {
	case fate.Done:
		l.Settled = r.Since
	case fate.Dead:
		l.Died = r.Since
	case fate.Discarded:
		l.GivenUp = r.Since
	}
	return l
}
