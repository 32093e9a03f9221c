package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/guyline/guyline/report"
)

// output is standard output. It remembers that it has failed, as on a full disk: a command that could not say its answer has not worked.
type output struct {
	to     io.Writer
	mu     sync.Mutex
	failed error
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.to.Write(p)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}

func (o *output) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// printJSON prints one value on one line.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := a.stdout.Write(escapeControls(b.Bytes()))
	return err
}

// escapeControls escapes what JSON allows and terminals obey: the control characters U+0080 to U+009F, and marks of direction.
func escapeControls(line []byte) []byte {
	if !bytes.ContainsFunc(line, obeyed) {
		return line
	}
	var b bytes.Buffer
	for _, r := range string(line) {
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

func obeyed(r rune) bool { return r >= 0x80 && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) }

// say writes one line to standard error, above a progress bar. What strangers wrote cannot command the terminal.
func (a *app) say(format string, args ...any) {
	a.flushLog()
	fmt.Fprintln(a.above, report.Line(fmt.Sprintf(format, args...), maxLine))
}

// maxLine bounds an error's line, in bytes.
const maxLine = 8 << 10

// table collects rows and prints them in columns.
type table struct {
	out   io.Writer
	text  *bytes.Buffer // in columns, with blanks at the ends of lines
	w     *tabwriter.Writer
	heads bool
}

func newTable(w io.Writer, heads ...string) table {
	text := &bytes.Buffer{}
	t := table{w, text, tabwriter.NewWriter(text, 0, 0, 2, ' ', 0), len(heads) > 0}
	if len(heads) > 0 {
		t.row(heads...)
	}
	return t
}

// row prints cells; what strangers wrote cannot break the line or command the terminal. Below heads, empty cells at the end keep their
// tabs: without one a column would end there, and begin anew in the next row. Without heads that holds for names alone: a note stands
// near its value, not behind the longest one.
func (t table) row(cells ...string) {
	for i, c := range cells {
		indent := len(c) - len(strings.TrimLeft(c, " "))
		cells[i] = c[:indent] + report.Line(c, 200)
	}
	line := strings.Join(cells, "\t")
	if !t.heads {
		line = strings.TrimRight(line, "\t")
		if len(cells) > 1 && !strings.Contains(line, "\t") {
			line += "\t"
		}
	}
	fmt.Fprintln(t.w, line)
}

func (t table) flush() error {
	if err := t.w.Flush(); err != nil {
		return err
	}
	var lines bytes.Buffer
	for line := range bytes.Lines(t.text.Bytes()) {
		lines.Write(append(bytes.TrimRight(line, " \n"), '\n'))
	}
	t.text.Reset()
	_, err := t.out.Write(lines.Bytes())
	return err
}

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

// parseSpan reads the flags --since and --until.
func parseSpan(since, until string) (from, to time.Time, err error) {
	if from, err = parseTime(since); err != nil {
		return from, to, usageError{fmt.Errorf("--since: %w", err)}
	}
	if to, err = parseTime(until); err != nil {
		return from, to, usageError{fmt.Errorf("--until: %w", err)}
	}
	if !to.IsZero() && !from.Before(to) {
		return from, to, usageError{fmt.Errorf("--since %s is not before --until %s", since, until)}
	}
	return from, to, nil
}

// confirm asks a person; elsewhere than on a terminal only --yes agrees.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	switch {
	case yes:
		return nil
	case !isTerminal(a.stdin):
		return usageError{fmt.Errorf("%s: say so with --yes", question)}
	}
	return a.ask(ctx, question)
}

func (a *app) ask(ctx context.Context, question string) error {
	fmt.Fprintf(a.stderr, "%s? [y/N] ", question)
	answer, err := bufio.NewReader(interruptible(ctx, a.stdin)).ReadString('\n')
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing done")
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing done")
	}
	return nil
}

// interruptible is in until ctx ends. Nothing can interrupt a read of a terminal or a pipe, so the
// goroutine that waits in one is left behind: the command ends after it.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
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
