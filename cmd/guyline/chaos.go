package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/chaos"
)

func (a *app) chaosCommand() *cobra.Command {
	cfg, onlyPlan := chaos.Default(), false
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Break servers and workers on purpose and check that every report is accounted for",
		Long: "Break servers and workers on purpose and check that every report is accounted for. It starts its own servers and\n" +
			"workers on this machine, in a temporary directory, and touches nothing else: see docs/reliability.md.\n\n" +
			"Exit code 3 if a check has failed. Every choice follows from the seed, which is printed.",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				cfg.Seed = anySeed()
			}
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			return a.chaos(cmd.Context(), cfg, onlyPlan)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&cfg.Seed, "seed", 0, "of every choice; none: another one each time")
	f.IntVar(&cfg.Servers, "servers", cfg.Servers, "1, or 3 for a cluster with three replicas")
	f.StringArrayVar(&cfg.URLs, "url", nil, "instead of starting servers: the address of one that runs, like nats://user:pass@host:4222; once for each of\n"+
		"a cluster. It must be for tests alone: streams that exist already are refused")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "worker processes")
	f.IntVar(&cfg.Slots, "slots", cfg.Slots, "reports in work at once, per process")
	f.IntVar(&cfg.Reports, "reports", cfg.Reports, "to publish")
	f.IntVar(&cfg.Faults, "faults", cfg.Faults, "to inject")
	f.DurationVar(&cfg.Duration, "for", cfg.Duration, "over how long reports and faults are spread; healing and draining come after it")
	f.DurationVar(&cfg.AckWait, "ack-wait", cfg.AckWait, "of the workers; most outages last up to twice as long")
	f.DurationVar(&cfg.Patience, "patience", cfg.Patience, "for the queues to empty after everything is healed")
	f.BoolVar(&cfg.Sync, "sync-always", false, "the servers sync each write to the disk")
	f.StringVar(&cfg.Dir, "dir", "", "a directory to make, for stores and logs that stay; none: a temporary one")
	f.BoolVar(&onlyPlan, "plan", false, "print the faults that would be injected, and stop")
	return cmd
}

func anySeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return binary.LittleEndian.Uint64(b[:]) % 1_000_000
}

func (a *app) chaos(ctx context.Context, cfg chaos.Config, onlyPlan bool) error {
	plan := chaos.NewPlan(cfg)
	if onlyPlan {
		for _, f := range plan.Faults {
			if !a.json {
				fmt.Fprintln(a.stdout, f)
			} else if err := a.printJSON(f); err != nil {
				return err
			}
		}
		return nil
	}
	a.say("seed %d; the same run again: %s", cfg.Seed, cfg.Command())
	r, err := chaos.Run(ctx, plan, a.log)
	if err != nil {
		a.say("seed %d; the same run again: %s", cfg.Seed, cfg.Command())
		return err
	}
	if a.json {
		err = a.printJSON(r)
	} else {
		err = a.printChaos(r)
	}
	if err == nil && len(r.Findings) > 0 {
		a.say("%d checks have failed; the same run again: %s", len(r.Findings), r.Command)
		return errPerson
	}
	return err
}

// shownFindings bounds what is printed; --json has all.
const shownFindings = 20

func (a *app) printChaos(r *chaos.Result) error {
	t := newTable(a.stdout)
	t.row("seed", fmt.Sprint(r.Seed))
	t.row("published", fmt.Sprint(r.Published), fmt.Sprintf("%d tries were refused or not answered, and repeated", r.Refused))
	for _, fate := range slices.Sorted(maps.Keys(r.Fates)) {
		t.row("  "+string(fate), fmt.Sprint(r.Fates[fate]))
	}
	t.row("done", fmt.Sprint(r.Done))
	t.row("dead", fmt.Sprint(r.Dead))
	t.row("waiting", fmt.Sprint(r.Waiting))
	total := 0
	for _, n := range r.Faults {
		total += n
	}
	t.row("faults", fmt.Sprint(total), fmt.Sprintf("%d workers died", r.Died))
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		t.row("  "+string(kind), fmt.Sprint(r.Faults[kind]))
	}
	t.row("lost", fmt.Sprint(r.Count(chaos.Lost)))
	t.row("doubled", fmt.Sprint(r.Count(chaos.Doubled)))
	t.row("unexplained", fmt.Sprint(r.Count(chaos.Unexplained)))
	t.row("stuck", fmt.Sprint(r.Count(chaos.Stuck)))
	t.row("left over", fmt.Sprint(r.Count(chaos.Leftover)), "processes and files")
	t.row("abandoned", fmt.Sprint(r.Abandoned), fmt.Sprintf("of any kind; killers are meant to be; let pass %d", r.AbandonedMost))
	t.row("dead by kills", fmt.Sprint(r.Innocent), fmt.Sprintf("of those that were to succeed; expected %.1f, as %.2f %% of deliveries were lost; let pass %d",
		r.Expected, 100*r.LostShare, r.Most))
	t.row("killers ran", fmt.Sprint(r.KillerRuns), "times at most")
	t.row("ran again", fmt.Sprint(r.Reruns), "runs began after the report was settled; their results were dropped")
	t.row("recovery", round(r.Median), fmt.Sprintf("from heal to the next settled report, median; worst %s; of %d that no other fault disturbed", round(r.Worst), len(r.Recovery)))
	t.row("standstill", round(r.Standstill), "longest time without a settled report while faults went on")
	t.row("last heal", round(r.First), "to the next settled report, "+round(r.Empty)+" to empty queues")
	if err := t.flush(); err != nil {
		return err
	}
	for i, f := range r.Findings {
		if i == shownFindings {
			fmt.Fprintf(a.stdout, "... and %d more: --json has all\n", len(r.Findings)-i)
			break
		}
		fmt.Fprintln(a.stdout, f.What, f.Key.Short(), f.Text)
	}
	return nil
}

func round(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// chaosParts are the hidden commands as which `guyline chaos` starts itself. They need no configuration.
func (a *app) chaosParts() []*cobra.Command {
	part := func(name, short string, run func(context.Context) error) *cobra.Command {
		return &cobra.Command{
			Use:    name,
			Short:  short + " (for the use of `guyline chaos`)",
			Hidden: true,
			Args:   cobra.NoArgs,
			PersistentPreRunE: func(*cobra.Command, []string) error {
				a.log = slog.New(slog.NewTextHandler(a.stderr, nil))
				return nil
			},
			RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
		}
	}
	return []*cobra.Command{
		part(chaos.WorkerCommand, "Work reports by script", func(ctx context.Context) error {
			return chaos.Work(ctx, a.stdin, a.stdout, a.log, a.connOptions()...)
		}),
		part(chaos.ServerCommand, "Serve JetStream on loopback", func(ctx context.Context) error {
			return chaos.Serve(ctx, a.stdin, a.stdout, a.log)
		}),
		part(chaos.CleanCommand, "Remove a temporary directory", func(ctx context.Context) error {
			return chaos.Clean(ctx, a.stdin)
		}),
	}
}
