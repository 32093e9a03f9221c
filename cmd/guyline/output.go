package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/guyline/guyline/report"
)

// printJSON prints one value on one line.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table collects rows and prints them in columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(heads) > 0 {
		t.row(heads...)
	}
	return t
}

// row prints cells; what strangers wrote cannot break the line or command the terminal.
func (t table) row(cells ...string) {
	for i, c := range cells {
		indent := len(c) - len(strings.TrimLeft(c, " "))
		cells[i] = c[:indent] + report.Line(c, 200)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t table) flush() error { return t.w.Flush() }

// when shows a time for a person: how far away, and exactly.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", humanize.Time(t), t.UTC().Format(time.RFC3339))
}

// short shows a time in a table.
func short(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// parseTime reads a flag's time: RFC 3339, a date (its beginning in UTC), or an age like 24h.
func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usageError{fmt.Errorf("%q is neither a time (2026-11-29T02:00:00Z), a date (2026-11-29) nor an age (24h)", s)}
	}
	return t, nil
}

// confirm asks a person; elsewhere than on a terminal only --yes agrees.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return usageError{fmt.Errorf("%s: say so with --yes", question)}
	}
	fmt.Fprintf(a.stderr, "%s? [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing done")
	}
	return nil
}

// reportOf reads the arguments SITE URI, or KEY.
func reportOf(args []string) (report.Token, report.Key, error) {
	if len(args) == 2 {
		e := report.Event{SiteID: args[0], SourceURI: args[1]}
		if err := e.Validate(); err != nil {
			return "", "", usageError{err}
		}
		return report.NewToken(e.SiteID), e.Key(), nil
	}
	key, err := report.ParseKey(args[0])
	if err != nil {
		return "", "", usageError{fmt.Errorf("%w: give SITE and URI, or the whole key", err)}
	}
	return "*", key, nil
}
