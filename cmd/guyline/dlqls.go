package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

func (a *app) dlqLsCommand() *cobra.Command {
	var (
		flags filterFlags
		limit int
		group bool
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters, or with --group their causes",
		Long: "List dead letters: the earliest deadline first, those without one last, then the oldest death.\n" +
			"With --json and no --limit they come as they lie in the queue, the oldest death first. Times are UTC.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := flags.filter()
			if err != nil {
				return err
			}
			if limit < 0 || limit == 0 && cmd.Flags().Changed("limit") {
				return usageError{fmt.Errorf("--limit is %d, allowed: 1 or more", limit)}
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			var found int
			switch {
			case group:
				found, err = a.listCauses(cmd.Context(), s, filter, limit)
			case a.json:
				found, err = a.listJSON(cmd.Context(), s, filter, limit)
			default:
				found, err = a.listLetters(cmd.Context(), s, filter, limit)
			}
			switch {
			case err != nil || found > 0 || a.json:
				return err
			case flags.empty():
				fmt.Fprintln(a.stdout, "no dead letter")
			default:
				fmt.Fprintln(a.stdout, "no dead letter matches")
			}
			return nil
		},
	}
	flags.register(cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "list at most so many, the most urgent ones; of causes the most frequent ones")
	cmd.Flags().BoolVar(&group, "group", false, "list the causes: class, code, source and reason, its numbers and names aside")
	return cmd
}

// The columns are fixed, so that a row can be made as soon as its letter is read. A terminal of fewer than lsNarrow characters gets
// those without which nothing can be done.
const (
	lsWide   = "%-12s  %-10s  %-9s  %-13s  %8s  %7s  %-16s  %-16s  "
	lsSlim   = "%-12s  %-10s  %-13s  %-16s  "
	lsNarrow = 140
)

func lsHead(width int) string {
	if width < lsNarrow {
		return fmt.Sprintf(lsSlim+"REASON", "KEY", "SITE", "CODE", "DUE")
	}
	return fmt.Sprintf(lsWide+"REASON", "KEY", "SITE", "CLASS", "CODE", "ATTEMPTS", "REPLAYS", "DIED", "DUE")
}

// lsRow is a letter's row. What is kept of 100,000 letters is their rows, so each is short.
func lsRow(l dlq.Letter, quarantined bool, width int) string {
	reason := l.Reason
	if quarantined {
		reason = "[quarantined] " + reason
	}
	key, site, code := report.Line(l.Key.Short(), 12), report.Line(l.SiteID(), 128), report.Line(string(l.Code), 64)
	row := fmt.Sprintf(lsSlim, key, site, code, minute(l.Due))
	if width >= lsNarrow {
		row = fmt.Sprintf(lsWide, key, site, report.Line(string(l.Class), 20), code, fmt.Sprint(l.Attempts), fmt.Sprint(l.Replays),
			minute(l.FailedAt), minute(l.Due))
	}
	return row + cutTo(report.Line(reason, maxLsReason), max(width-utf8.RuneCountInString(row), minLsReason))
}

// minute shows a time in few characters, in UTC.
func minute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04")
}

const (
	maxLsReason = 120 // bytes of a reason in a list
	minLsReason = 20  // characters of it, however narrow the terminal is
)

// cutTo shortens s to at most n characters, and shows it.
func cutTo(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// width is how many characters a line of standard output has; without a terminal as many as a row can have.
func (a *app) width() int {
	if isTerminal(a.stdout) {
		f := a.stdout.(*output).to.(*os.File)
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 1 << 10
}

func (a *app) listLetters(ctx context.Context, s *session, filter dlq.Filter, limit int) (found int, err error) {
	rows, width := dlq.Urgent[string]{Limit: limit}, a.width()
	for l, err := range s.letters.List(ctx, filter) {
		if err != nil {
			return found, err
		}
		found++
		if rows.Fits(l.Rank()) {
			rows.Add(l.Rank(), lsRow(l, s.letters.Quarantined(l), width))
		}
	}
	if found == 0 {
		return 0, nil
	}
	return found, a.printRows(lsHead(width), &rows, found, limit)
}

func (a *app) printRows(head string, rows *dlq.Urgent[string], found, limit int) error {
	var b bytes.Buffer
	b.WriteString(head + "\n")
	for row := range rows.All() {
		b.WriteString(row + "\n")
		if b.Len() < 32<<10 {
			continue
		}
		if _, err := a.stdout.Write(b.Bytes()); err != nil {
			return err
		}
		b.Reset()
	}
	if _, err := a.stdout.Write(b.Bytes()); err != nil {
		return err
	}
	if limit > 0 && found > limit {
		a.say("%d of %d are shown", limit, found)
	}
	return nil
}

// listJSON prints letters as JSON lines: with a limit sorted, else as they are read.
func (a *app) listJSON(ctx context.Context, s *session, filter dlq.Filter, limit int) (found int, err error) {
	lines := dlq.Urgent[json.RawMessage]{Limit: limit}
	for l, err := range s.letters.List(ctx, filter) {
		if err != nil {
			return found, err
		}
		if found++; !lines.Fits(l.Rank()) {
			continue
		}
		line, err := letterJSON(s, l)
		if err != nil {
			return found, err
		}
		if limit > 0 {
			lines.Add(l.Rank(), line)
		} else if err := a.printJSON(line); err != nil {
			return found, err
		}
	}
	for line := range lines.All() {
		if err := a.printJSON(line); err != nil {
			return found, err
		}
	}
	return found, nil
}

// letterJSON is a letter, and whether it is quarantined, which depends on the configuration.
func letterJSON(s *session, l dlq.Letter) (json.RawMessage, error) {
	line, err := json.Marshal(l)
	if err == nil && s.letters.Quarantined(l) {
		line = append(line[:len(line)-1], `,"quarantined":true}`...)
	}
	return line, err
}

func (a *app) listCauses(ctx context.Context, s *session, filter dlq.Filter, limit int) (found int, err error) {
	groups, err := s.letters.Group(ctx, filter)
	if err != nil {
		return 0, err
	}
	causes, others := groups.Causes, groups.Others
	if limit > 0 && len(causes) > limit {
		for _, g := range causes[limit:] {
			others += g.Count
		}
		causes = causes[:limit]
	}
	if a.json {
		return groups.Total, a.causesJSON(causes, others)
	}
	if groups.Total == 0 {
		return 0, nil
	}
	t := newTable(a.stdout, "LETTERS", "CLASS", "CODE", "SOURCE", "FIRST DIED", "LAST DIED", "NEXT DUE", "SAMPLE", "REASON")
	for _, g := range causes {
		t.row(fmt.Sprint(g.Count), string(g.Class), string(g.Code), g.Upstream, minute(g.First), minute(g.Last), minute(g.NextDue), g.Sample.Short(),
			report.Line(g.Reason, maxLsReason))
	}
	if others > 0 {
		t.row(fmt.Sprint(others), "others")
	}
	return groups.Total, t.flush()
}

func (a *app) causesJSON(causes []dlq.Group, others int) error {
	for _, g := range causes {
		if err := a.printJSON(g); err != nil {
			return err
		}
	}
	if others > 0 {
		return a.printJSON(map[string]int{"others": others})
	}
	return nil
}
