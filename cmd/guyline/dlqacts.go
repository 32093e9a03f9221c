package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

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
			letters, err := a.choose(cmd.Context(), keys)
			if err != nil {
				return err
			}
			if len(letters) > 1 {
				if err := a.confirm(cmd.Context(), yes, fmt.Sprintf("this gives %d reports up", len(letters))); err != nil {
					return err
				}
			}
			return a.act(cmd.Context(), "discarding", letters, func(q *dlq.Queue, l dlq.Letter) (dlq.Outcome, error) {
				return q.Discard(context.WithoutCancel(cmd.Context()), l.Sequence, dlq.By{Actor: a.actor, Reason: reason})
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
func (a *app) choose(ctx context.Context, keys []string) ([]dlq.Letter, error) {
	s, err := a.open(ctx, reads)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return chosen(ctx, s, keys)
}

// chosen finds all letters before anything is done to one of them.
func chosen(ctx context.Context, s *session, keys []string) (letters []dlq.Letter, err error) {
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

// act does something to each letter and counts what became of them. An interrupt waits for the letter in hand.
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
		if ctx.Err() != nil {
			stopped = fmt.Errorf("interrupted after %d of %d letters: run it again to go on", i, len(letters))
			break
		}
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
		a.outcomeRows(t, counts)
		if err := t.flush(); err != nil {
			return err
		}
	}
	return stopped
}
