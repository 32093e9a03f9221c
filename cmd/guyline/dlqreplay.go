package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// replayFlags are the flags of `dlq replay`.
type replayFlags struct {
	filterFlags
	all, yes, force, dryRun bool
	reason, rate            string
	limit, canary           int

	perSecond float64
	keys      []string
}

// manyLetters is from how many on a canary is suggested.
const manyLetters = 1000

func (a *app) dlqReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay {KEY... | filters | --all}",
		Short: "Send dead reports back to the queue",
		Long: "Send dead reports back to the queue, with fresh attempts: those with the nearest deadline first, then the longest dead.\n" +
			"Letters that come while it runs are left alone. It can be interrupted and run again: nothing is sent twice.\n\n" +
			"A letter whose report has been replayed GUYLINE_REPLAY_MAX times is quarantined: it is replayed by its KEY alone, with --force.\n\n" +
			"Exit codes: 0 all went; 1 it failed or was interrupted: run it again; 3 most of the canary did not land, or letters\n" +
			"stay because they are quarantined, another copy of their report is in the queue, or ledger or trail cannot be read.",
		Example: "  guyline dlq replay --code connection --dry-run\n" +
			"  guyline dlq replay --code connection --canary 20 --rate 200 --reason \"portal is back\"",
		RunE: func(cmd *cobra.Command, keys []string) error {
			f.keys = keys
			for _, name := range []string{"limit", "canary"} {
				if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "0" { // it must not mean all
					return usageError{fmt.Errorf("--%s is 0, allowed: 1 or more", name)}
				}
			}
			if err := f.check(); err != nil {
				return err
			}
			return a.replay(cmd.Context(), f)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "every letter")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the audit trail")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be done; send nothing")
	cmd.Flags().StringVar(&f.rate, "rate", "", "at most so many reports per second, like 200 or 0.5/s (default: as fast as the server takes them)")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "at most so many letters (default: all)")
	cmd.Flags().IntVar(&f.canary, "canary", 0, "send so many first, wait until they have landed or died again, and go on if most have landed")
	cmd.Flags().BoolVar(&f.force, "force", false, "with KEYs: quarantined letters too")
	return cmd
}

// check finds what is wrong with the flags, and reads the rate.
func (f *replayFlags) check() error {
	switch {
	case btoi(len(f.keys) > 0)+btoi(f.all)+btoi(!f.empty()) != 1:
		return usageError{errors.New("say which letters: either KEYs, or filters, or --all")}
	case f.force && len(f.keys) == 0:
		return usageError{errors.New("--force replays quarantined letters by KEY only: look at each before")}
	case f.limit < 0:
		return usageError{fmt.Errorf("--limit is %d, allowed: 1 or more", f.limit)}
	case f.canary < 0:
		return usageError{fmt.Errorf("--canary is %d, allowed: 1 or more", f.canary)}
	case f.rate == "":
		return nil
	}
	var err error
	f.perSecond, err = strconv.ParseFloat(strings.TrimSuffix(f.rate, "/s"), 64)
	if err != nil || !(f.perSecond > 0) || math.IsInf(f.perSecond, 0) {
		return usageError{fmt.Errorf("--rate is %q, allowed: a number of reports per second above 0, like 200 or 0.5/s", f.rate)}
	}
	return nil
}

func (a *app) replay(ctx context.Context, f replayFlags) error {
	plan, err := a.planReplay(ctx, f)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: nothing done")
	case err != nil:
		return err
	}
	if plan.Matched == 0 {
		fmt.Fprintln(a.stderr, "no dead letter matches")
	}
	if len(plan.Send) > manyLetters && f.canary == 0 {
		fmt.Fprintf(a.stderr, "these are many: --canary 20 sends 20 first, and goes on only if most of them land\n")
	}
	if f.dryRun {
		return a.printPlan(plan, f)
	}
	if len(plan.Send) > 1 {
		if err := a.confirm(ctx, f.yes, fmt.Sprintf("this sends %d reports back to the queue", len(plan.Send))); err != nil {
			return err
		}
	}
	return a.runReplay(ctx, plan, f)
}

// planReplay makes the plan in a session of its own: the store is not held while a person is asked about it.
func (a *app) planReplay(ctx context.Context, f replayFlags) (dlq.Plan, error) {
	filter, err := f.filter()
	if err != nil {
		return dlq.Plan{}, err
	}
	s, err := a.open(ctx, reads)
	if err != nil {
		return dlq.Plan{}, err
	}
	defer s.Close()
	o := dlq.PlanOptions{Filter: filter, Limit: f.limit, Force: f.force}
	if len(f.keys) == 0 {
		return s.letters.Plan(ctx, o)
	}
	letters, err := chosen(ctx, s, f.keys)
	if err != nil {
		return dlq.Plan{}, err
	}
	plan, err := s.letters.PlanOf(ctx, letters, o)
	if err != nil || plan.Quarantined == 0 {
		return plan, err
	}
	for _, l := range letters {
		if s.letters.Quarantined(l) {
			return plan, fmt.Errorf("%s (%s) is quarantined: it has died again after each of %d replays; --force replays it once more. Nothing was sent",
				l.Key.Short(), report.Line(l.SiteID(), 128), l.Replays)
		}
	}
	return plan, nil
}

// runReplay does what the plan says, and prints what became of it.
func (a *app) runReplay(ctx context.Context, plan dlq.Plan, f replayFlags) error {
	s, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer s.Close()
	if f.canary > 0 && len(plan.Send) > 0 {
		if err := a.needWorker(ctx, s); err != nil {
			return err
		}
		a.say("a canary of %d goes first, and is waited for", f.canary)
	}
	bar := a.startProgress("replaying", int64(len(plan.Send)))
	defer bar.end()
	tally, err := s.letters.ReplayAll(ctx, plan.Send, dlq.Bulk{
		By: dlq.By{Actor: a.actor, Reason: f.reason, Force: f.force}, Rate: f.perSecond, Canary: f.canary,
		Progress: func(done, _ int) { bar.to(int64(done), 0) },
	})
	bar.end()
	done := 0
	for _, n := range tally.ByOutcome {
		done += n
	}
	if err := a.printReplayed(tally, plan, len(plan.Send)-done); err != nil {
		return err
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d of %d letters: run it again to go on, nothing is sent twice", done, len(plan.Send))
	case err != nil:
		return fmt.Errorf("stopped after %d of %d letters: run it again to go on: %w", done, len(plan.Send), err)
	case tally.Stopped != "":
		a.say("stopped: %s", tally.Stopped)
		return errPerson
	case plan.Quarantined+tally.ByOutcome[dlq.Quarantined]+tally.ByOutcome[dlq.Busy]+tally.ByOutcome[dlq.Unreadable] > 0:
		return errPerson
	}
	return nil
}

// needWorker refuses a canary that nobody would work, after a few looks, as there is a moment between two pulls.
func (a *app) needWorker(ctx context.Context, s *session) error {
	none := errors.New("no worker takes reports, so no canary would land: start one with `guyline run`. Nothing was sent")
	if s.store != nil && !s.store.Remote() { // nobody else can get at the store
		return none
	}
	for range 5 {
		working, err := s.finder.Working(ctx)
		if err != nil || working {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("interrupted: nothing done")
		}
	}
	return none
}
