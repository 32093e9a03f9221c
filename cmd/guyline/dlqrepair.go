package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

func (a *app) dlqRepairCommand() *cobra.Command {
	var uri, reason string
	cmd := &cobra.Command{
		Use:   "repair KEY --uri NEW --reason R",
		Short: "Put a corrected report into the queue in place of a dead one",
		Long: "Put a corrected report into the queue in place of a dead one: the same payload with another source_uri, for instance of a\n" +
			"file that was moved. A new URI is a new key, so the dead report is given up for good, with the new key in the reason.\n" +
			"If it is interrupted, run it again with the same URI.\n\n" +
			"Exit codes: 0 repaired; 1 it failed; 3 nothing was repaired, because the report has landed, another copy of it is in the\n" +
			"queue, or somebody else was faster.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case uri == "":
				return usageError{errors.New("repair needs a --uri: where the report is now")}
			case report.Clean(reason) == "":
				return usageError{errors.New("repair needs a --reason: it stays in the audit trail for good")}
			}
			if err := (report.Event{SiteID: "x", SourceURI: uri}).Validate(); err != nil {
				return usageError{err}
			}
			return a.repair(cmd.Context(), args[0], uri, reason)
		},
	}
	cmd.Flags().StringVar(&uri, "uri", "", "the corrected source_uri; required")
	cmd.Flags().StringVar(&reason, "reason", "", "why; required")
	return cmd
}

func (a *app) repair(ctx context.Context, key, uri, reason string) error {
	s, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer s.Close()
	letters, err := chosen(ctx, s, []string{key})
	if err != nil {
		return err
	}
	l := letters[0]
	outcome, corrected, err := s.letters.Repair(ctx, l.Sequence, uri, dlq.By{Actor: a.actor, Reason: reason})
	if err != nil {
		return fmt.Errorf("repair %s (%s): %w", l.Key.Short(), report.Line(l.SiteID(), 128), err)
	}
	if a.json {
		err = a.printJSON(struct {
			Key     report.Key  `json:"key"`
			SiteID  string      `json:"site_id"`
			Outcome dlq.Outcome `json:"outcome"`
			NewKey  report.Key  `json:"new_key,omitempty"`
		}{l.Key, l.SiteID(), outcome, corrected})
	} else {
		t := newTable(a.stdout)
		if outcome == dlq.Repaired {
			t.row("given up", string(l.Key))
			t.row("queued", string(corrected))
		} else {
			t.row("not repaired")
			a.outcomeRows(t, map[dlq.Outcome]int{outcome: 1})
		}
		err = t.flush()
	}
	if err == nil && outcome != dlq.Repaired {
		return errPerson
	}
	return err
}
