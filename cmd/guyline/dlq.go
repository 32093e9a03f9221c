package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

func (a *app) dlqCommand() *cobra.Command {
	cmd := group("dlq", "Read, verify, replay, repair and discard dead letters")
	cmd.AddCommand(a.dlqLsCommand(), a.dlqShowCommand(), a.dlqVerifyCommand(), a.dlqReplayCommand(), a.dlqRepairCommand(), a.dlqDiscardCommand(), a.dlqExportCommand())
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
				line, err := letterJSON(s, l)
				if err != nil {
					return err
				}
				return a.printJSON(line)
			}
			t := newTable(a.stdout)
			letterRows(t, l, s.letters.Quarantined(l))
			keeps, err := s.letters.Keeps(cmd.Context())
			if err != nil {
				return err
			}
			if keeps > 0 {
				t.row("leaves", when(l.FailedAt.Add(keeps)), "by the age limit of "+dlq.Stream)
			}
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

func letterRows(t table, l dlq.Letter, quarantined bool) {
	t.row("key", string(l.Key))
	t.row("site", l.SiteID())
	t.row("class", string(l.Class))
	t.row("code", string(l.Code))
	t.row("reason", report.Line(l.Reason, report.MaxReason))
	t.row("audit hash", l.Hash)
	t.row("attempts", fmt.Sprint(l.Attempts))
	if quarantined {
		t.row("replays", fmt.Sprint(l.Replays), "quarantined: only `guyline dlq replay KEY --force` replays it again")
	} else {
		t.row("replays", fmt.Sprint(l.Replays))
	}
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
