package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/reprocess"
)

func outcomeOf(r reprocess.Reopened) string {
	if r.Before != "" {
		return "queued"
	}
	return "reopened"
}

func (a *app) reprocessCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "reprocess {SITE URI | KEY} --reason R",
		Short: "Work a settled report again, for instance a corrected file under the same URI",
		Long: "Work a settled report again, for instance a corrected file that was saved under the same URI. The old result stays in the\n" +
			"ledger until the new one takes its place, and in the audit trail for good. Run again after a crash: it goes on.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if report.Clean(reason) == "" {
				return usageError{errors.New("reprocess needs a --reason: it stays in the audit trail for good")}
			}
			site, key, err := reportOf(args)
			if err != nil {
				return err
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			done, err := reprocess.New(s.queues, s.ledger, s.letters, s.trail).Reprocess(cmd.Context(), site, key, reprocess.By{Actor: a.actor, Reason: reason})
			switch {
			case errors.Is(err, reprocess.ErrNotSettled):
				return fmt.Errorf("reprocess %s: %w: `guyline why` tells where it is, `guyline dlq replay` sends a dead one back", key.Short(), err)
			case err != nil:
				return fmt.Errorf("reprocess %s: %w; run it again to go on", key.Short(), err)
			}
			if a.json {
				return a.printJSON(map[string]any{"key": key, "site_id": done.SiteID, "outcome": outcomeOf(done), "was_revision": done.Was, "revision": done.Revision})
			}
			t := newTable(a.stdout)
			if done.Before == "" {
				t.row("reopened", report.RedactSource(done.SourceURI)+" of "+done.SiteID)
			} else {
				t.row("queued", report.RedactSource(done.SourceURI)+" of "+done.SiteID+"; "+done.Before+" had reopened it before")
			}
			t.row("it was settled", when(done.Settled))
			t.row("the old result", string(done.Result), "in the trail for good")
			return t.flush()
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; required")
	return cmd
}
