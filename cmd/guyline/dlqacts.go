package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

func (a *app) dlqReplayCommand() *cobra.Command {
	var (
		flags    filterFlags
		all, yes bool
		reason   string
	)
	cmd := &cobra.Command{
		Use:   "replay {KEY... | filters | --all}",
		Short: "Send dead reports back to the queue",
		Long: "Send dead reports back to the queue, with fresh attempts. Letters that come while it runs are left alone. It can be\n" +
			"interrupted and run again: nothing is sent twice.",
		RunE: func(cmd *cobra.Command, keys []string) error {
			if n := btoi(len(keys) > 0) + btoi(all) + btoi(!flags.empty()); n != 1 {
				return usageError{errors.New("say which letters: either KEYs, or filters, or --all")}
			}
			filter, err := flags.filter()
			if err != nil {
				return err
			}
			letters, err := a.choose(cmd.Context(), keys, filter)
			if err != nil {
				return err
			}
			if len(letters) == 0 {
				fmt.Fprintln(a.stderr, "no dead letter matches")
			}
			if len(letters) > 1 {
				if err := a.confirm(cmd.Context(), yes, fmt.Sprintf("this sends %d reports back to the queue", len(letters))); err != nil {
					return err
				}
			}
			return a.act(cmd.Context(), "replaying", letters, func(q *dlq.Queue, l dlq.Letter) (dlq.Outcome, error) {
				return q.Replay(cmd.Context(), l.Sequence, dlq.By{Actor: a.actor, Reason: reason})
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every letter")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	return cmd
}

func (a *app) dlqDiscardCommand() *cobra.Command {
	var (
		yes    bool
		reason string
	)
	cmd := &cobra.Command{
		Use:   "discard KEY... --reason R",
		Short: "Give dead reports up, by name and for a reason",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, keys []string) error {
			if report.Clean(reason) == "" {
				return usageError{errors.New("discard needs a --reason: it stays in the audit trail for good")}
			}
			letters, err := a.choose(cmd.Context(), keys, dlq.Filter{})
			if err != nil {
				return err
			}
			if len(letters) > 1 {
				if err := a.confirm(cmd.Context(), yes, fmt.Sprintf("this gives %d reports up", len(letters))); err != nil {
					return err
				}
			}
			return a.act(cmd.Context(), "discarding", letters, func(q *dlq.Queue, l dlq.Letter) (dlq.Outcome, error) {
				return q.Discard(cmd.Context(), l.Sequence, dlq.By{Actor: a.actor, Reason: reason})
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "why; required")
	return cmd
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// choose finds the letters in a session of its own: the store is not held while a person is asked about them.
func (a *app) choose(ctx context.Context, keys []string, filter dlq.Filter) ([]dlq.Letter, error) {
	s, err := a.open(ctx, reads)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return chosen(ctx, s, keys, filter)
}

// chosen finds all letters before anything is done to one of them.
func chosen(ctx context.Context, s *session, keys []string, filter dlq.Filter) (letters []dlq.Letter, err error) {
	if len(keys) == 0 {
		for l, err := range s.letters.List(ctx, filter) {
			if err != nil {
				return nil, err
			}
			letters = append(letters, dlq.Letter{Sequence: l.Sequence, Key: l.Key, Site: l.Site}) // all that acting needs
		}
		return letters, nil
	}
	seen := map[report.Key]bool{}
	for _, key := range keys {
		if !report.IsKeyPrefix(key) {
			return nil, usageError{fmt.Errorf("%q is not the beginning of a key (hex digits)", key)}
		}
		l, err := s.letters.Find(ctx, key)
		if err != nil {
			return nil, hintLetter(err)
		}
		if !seen[l.Key] {
			letters = append(letters, l)
		}
		seen[l.Key] = true
	}
	return letters, nil
}

// act does something to each letter and counts what became of them.
func (a *app) act(ctx context.Context, what string, letters []dlq.Letter, do func(*dlq.Queue, dlq.Letter) (dlq.Outcome, error)) error {
	s, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer s.Close()
	bar := a.startProgress(what, int64(len(letters)))
	defer bar.end()
	counts := map[dlq.Outcome]int{}
	var stopped error
	for i, l := range letters {
		outcome, err := do(s.letters, l)
		if err != nil {
			stopped = fmt.Errorf("%s %s (%s): %w; stopped after %d of %d letters: run it again to go on",
				what, report.Line(l.SiteID(), 128), l.Key.Short(), err, i, len(letters))
			break
		}
		counts[outcome]++
		if a.json {
			if err := a.printJSON(map[string]any{"key": l.Key, "site_id": l.SiteID(), "outcome": outcome}); err != nil {
				return err
			}
		}
		bar.to(int64(i+1), 0)
	}
	bar.end()
	if !a.json {
		t := newTable(a.stdout)
		for _, o := range []struct {
			outcome dlq.Outcome
			meaning string
		}{
			{dlq.Replayed, "in the queue again"},
			{dlq.Discarded, "given up"},
			{dlq.Recovered, "had landed already; the letter is closed"},
			{dlq.Busy, "another copy is in the queue; the letter stays"},
			{dlq.Gone, "somebody else was faster"},
		} {
			if n := counts[o.outcome]; n > 0 {
				t.row(string(o.outcome), fmt.Sprint(n), o.meaning)
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return stopped
}
