package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

func (a *app) dlqCommand() *cobra.Command {
	cmd := group("dlq", "Read, verify, replay, repair and discard dead letters")
	cmd.AddCommand(a.dlqLsCommand(), a.dlqShowCommand(), a.dlqVerifyCommand(), a.dlqReplayCommand(), a.dlqRepairCommand(), a.dlqDiscardCommand(), a.dlqExportCommand())
	return cmd
}

// filterFlags are the flags that select letters.
type filterFlags struct{ site, class, code, since, dueWithin, match string }

func (f *filterFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.site, "site", "", "of this site_id")
	cmd.Flags().StringVar(&f.class, "class", "", "of this class: poison, exhausted or abandoned")
	cmd.Flags().StringVar(&f.code, "code", "", "with this code, like not-found")
	cmd.Flags().StringVar(&f.since, "since", "", "dead since: a time, a date, or an age like 24h")
	cmd.Flags().StringVar(&f.dueWithin, "due-within", "", "with a deadline within so long from now, like 48h; deadlines that have passed are included")
	cmd.Flags().StringVar(&f.match, "match", "", "whose reason matches this regular expression")
}

func (f *filterFlags) empty() bool { return *f == filterFlags{} }

func (f *filterFlags) filter() (dlq.Filter, error) {
	out := dlq.Filter{Site: f.site, Class: report.Class(f.class), Code: report.Code(f.code)}
	switch out.Class {
	case "", report.ClassPoison, report.ClassExhausted, report.ClassAbandoned:
	default:
		return out, usageError{fmt.Errorf("--class is %q, allowed: poison, exhausted, abandoned", f.class)}
	}
	var err error
	if out.Since, err = parseTime(f.since); err != nil {
		return out, err
	}
	if f.dueWithin != "" {
		d, err := time.ParseDuration(f.dueWithin)
		if err != nil {
			return out, usageError{fmt.Errorf("--due-within is %q, allowed: a duration like 48h", f.dueWithin)}
		}
		out.DueBefore = time.Now().Add(d)
	}
	if f.match != "" {
		if out.Match, err = regexp.Compile(f.match); err != nil {
			return out, usageError{fmt.Errorf("--match: %w", err)}
		}
	}
	return out, nil
}

func (a *app) dlqLsCommand() *cobra.Command {
	var flags filterFlags
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := flags.filter()
			if err != nil {
				return err
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			t := newTable(a.stdout, "KEY", "SITE", "CLASS", "CODE", "ATTEMPTS", "REPLAYS", "DIED", "DUE", "REASON")
			n := 0
			for l, err := range s.letters.List(cmd.Context(), filter) {
				if err != nil {
					return err
				}
				n++
				if a.json {
					if err := a.printJSON(l); err != nil {
						return err
					}
					continue
				}
				t.row(l.Key.Short(), l.SiteID(), string(l.Class), string(l.Code), fmt.Sprint(l.Attempts), fmt.Sprint(l.Replays),
					short(l.FailedAt), short(l.Due), report.Line(l.Reason, 120))
			}
			switch {
			case a.json:
				return nil
			case n == 0 && flags.empty():
				fmt.Fprintln(a.stdout, "no dead letter")
				return nil
			case n == 0:
				fmt.Fprintln(a.stdout, "no dead letter matches")
				return nil
			}
			return t.flush()
		},
	}
	flags.register(cmd)
	return cmd
}

func (a *app) dlqShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show one dead letter with its payload",
		Long:  "Show one dead letter with its payload. The beginning of the key is enough if only one letter has it.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !report.IsKeyPrefix(args[0]) {
				return usageError{fmt.Errorf("%q is not the beginning of a key (hex digits)", args[0])}
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			l, err := s.letters.Find(cmd.Context(), args[0])
			if err != nil {
				return hintLetter(err)
			}
			if a.json {
				return a.printJSON(l)
			}
			t := newTable(a.stdout)
			letterRows(t, l)
			for _, name := range slices.Sorted(maps.Keys(l.Foreign)) {
				for _, v := range l.Foreign[name] {
					t.row(name, v)
				}
			}
			if err := t.flush(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "\n%s\n", report.Line(string(l.Body), report.MaxMessage))
			return err
		},
	}
}

func hintLetter(err error) error {
	switch {
	case errors.Is(err, dlq.ErrNotFound):
		return fmt.Errorf("%w: `guyline dlq ls` lists them, `guyline show` tells where a report is", err)
	case errors.Is(err, dlq.ErrAmbiguous):
		return usageError{fmt.Errorf("%w: give more of the key", err)}
	}
	return err
}

func letterRows(t table, l dlq.Letter) {
	t.row("key", string(l.Key))
	t.row("site", l.SiteID())
	t.row("class", string(l.Class))
	t.row("code", string(l.Code))
	t.row("reason", report.Line(l.Reason, report.MaxReason))
	t.row("audit hash", l.Hash)
	t.row("attempts", fmt.Sprint(l.Attempts))
	t.row("replays", fmt.Sprint(l.Replays))
	t.row("published", when(l.PublishedAt))
	t.row("first failed", when(l.FirstFailedAt))
	t.row("died", when(l.FailedAt))
	t.row("due", when(l.Due))
	t.row("upstream", l.Upstream)
	t.row("worker", l.Worker+" "+l.Version)
	t.row("was in", fmt.Sprintf("%s %d, %s", l.Source.Stream, l.Source.Sequence, l.Subject))
	if l.Dropped > 0 {
		t.row("headers dropped", fmt.Sprint(l.Dropped))
	}
}

func (a *app) dlqVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compare every letter with its audit hash, its payload and the audit trail",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			var sound, wrong int
			for f, err := range s.letters.Verify(cmd.Context()) {
				switch {
				case err != nil:
					return err
				case f.Problem == "":
					sound++
					continue
				}
				wrong++
				if a.json {
					err = a.printJSON(map[string]any{"key": f.Letter.Key, "site_id": f.Letter.SiteID(), "letter": f.Letter.Sequence, "problem": f.Problem})
				} else {
					_, err = fmt.Fprintf(a.stdout, "%s  %s: %s\n", report.Line(f.Letter.Key.Short(), 12), report.Line(f.Letter.SiteID(), 200), report.Line(f.Problem, 200))
				}
				if err != nil {
					return err
				}
			}
			if !a.json {
				fmt.Fprintf(a.stdout, "%d letters are sound, %d are not\n", sound, wrong)
			}
			if wrong > 0 {
				return errPerson
			}
			return nil
		},
	}
}

func (a *app) dlqExportCommand() *cobra.Command {
	var flags filterFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print letters with their payloads as JSON lines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := flags.filter()
			if err != nil {
				return err
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			for l, err := range s.letters.Export(cmd.Context(), filter) {
				if err != nil {
					return err
				}
				if err := a.printJSON(l); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.register(cmd)
	return cmd
}
