package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/bench"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/part"
	"github.com/guyline/guyline/report"
)

func (a *app) benchLatencyCommand() *cobra.Command {
	var (
		server, sync string
		parts        []string
		cfg          = bench.DefaultLatency(bench.Embedded, bench.Interval)
	)
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure times: to done, of retries, of the start; and what idling costs",
		Long: "Measure times: to done, of retries, of the start; and what idling costs. See docs/performance.md.\n" +
			"It starts its own server with a temporary store, unless told otherwise, and touches nothing else.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Place, err = a.benchPlace(server, sync); err != nil {
				return err
			}
			cfg.Version, cfg.CacheDir = version, a.cfg.CacheDir
			cfg.Parts = bench.Parts(cfg.Place.Mode)
			if cmd.Flags().Changed("parts") {
				cfg.Parts = nil
				for _, p := range parts {
					cfg.Parts = append(cfg.Parts, bench.Part(p))
				}
			}
			if cfg.CacheDir != "" {
				if cfg.CacheDir, err = filepath.Abs(cfg.CacheDir); err != nil {
					return err
				}
			}
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			return a.benchLatency(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	benchPlaceFlags(cmd, &server, &sync)
	f.StringSliceVar(&parts, "parts", nil, "only these, separated by commas: single,retries,held,startup,idle (the last two with --server embedded)")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "of guyline, as GUYLINE_WORKERS; start-up and idle have the default")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "single: reports at idle")
	f.IntVar(&cfg.Reports, "n", cfg.Reports, "single and held: reports in the backlog of which a rate is taken")
	f.DurationVar(&cfg.Load, "load", cfg.Load, "single: how long half the rate is published")
	f.IntSliceVar(&cfg.Outstanding, "outstanding", cfg.Outstanding, "retries: reports that wait at once")
	f.DurationSliceVar(&cfg.Delays, "delays", cfg.Delays, "retries: what they ask for")
	f.IntVar(&cfg.Held, "held", cfg.Held, "held: reports that wait all the time")
	f.IntVar(&cfg.Reps, "reps", cfg.Reps, "held: repetitions, each with a lap with and one without")
	f.IntVar(&cfg.Starts, "starts", cfg.Starts, "startup: of each kind")
	f.DurationVar(&cfg.Idle, "idle", cfg.Idle, "idle: how long to watch")
	return cmd
}

func (a *app) benchLatency(ctx context.Context, cfg bench.LatencyConfig) error {
	r, err := bench.Latency(ctx, cfg, a.log)
	return printMeasured(ctx, a, r, err, a.printBenchLatency)
}

func (a *app) printBenchLatency(r *bench.LatencyResult) error {
	t := a.benchSettings(r.Settings)
	t.row("workers", fmt.Sprint(r.Settings.Workers))
	if err := t.flush(); err != nil {
		return err
	}
	for _, show := range []func(*bench.LatencyResult) error{a.printBenchSingle, a.printBenchRetries, a.printBenchHeld, a.printBenchStartup, a.printBenchIdle} {
		if err := show(r); err != nil {
			return err
		}
	}
	return a.printGoals(r.Goals)
}

func milliseconds(x float64) string { return fmt.Sprintf("%.2f", x) }

func percentileCells(p bench.Percentiles) []string {
	return []string{milliseconds(p.P50), milliseconds(p.P99), milliseconds(p.Most), fmt.Sprint(p.Count)}
}

func (a *app) printBenchSingle(r *bench.LatencyResult) error {
	if r.Single == nil {
		return nil
	}
	fmt.Fprintln(a.stdout, "\nOne report, in milliseconds from just before it is published until its acknowledgement is sent.")
	t := newTable(a.stdout, "LOAD", "P50", "P99", "MOST", "REPORTS")
	t.row(append([]string{"idle"}, percentileCells(r.Single.Idle)...)...)
	t.row(append([]string{"  of it until stored"}, percentileCells(r.Single.Stored)...)...)
	t.row(append([]string{fmt.Sprintf("%.0f/s, half of the most (%.0f/s)", r.Single.Load, r.Single.Max)}, percentileCells(r.Single.Half)...)...)
	return t.flush()
}

func (a *app) printBenchRetries(r *bench.LatencyResult) error {
	if len(r.Retries) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout, "\nRetries: milliseconds later than asked for, all of them at once and without jitter.")
	t := newTable(a.stdout, "OUTSTANDING", "DELAY", "P50", "P99", "MOST", "EARLY", "WAITED AT ONCE")
	for _, x := range r.Retries {
		t.row(fmt.Sprint(x.Outstanding), fmt.Sprintf("%.0f ms", x.Delay), milliseconds(x.Late.P50), milliseconds(x.Late.P99), milliseconds(x.Late.Most),
			fmt.Sprint(x.Early), fmt.Sprint(x.Most))
	}
	return t.flush()
}

func (a *app) printBenchHeld(r *bench.LatencyResult) error {
	h := r.Held
	if h == nil {
		return nil
	}
	fmt.Fprintf(a.stdout, "\nA backlog of %d, beside reports that wait for their retry and without.\n", h.Reports)
	t := newTable(a.stdout, "HELD", "REPORTS/S")
	t.row("none", rangeOf(h.Without, 0))
	t.row(fmt.Sprint(h.Held), rangeOf(h.With, 0))
	t.row("ratio", maybeRange(&h.Ratio))
	t.row("ratio of CPU", maybeRange(h.CPU))
	return t.flush()
}

func (a *app) printBenchStartup(r *bench.LatencyResult) error {
	if len(r.Startup) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout, "\nStart of a process on a small embedded store, in milliseconds until it gets there.")
	t := newTable(a.stdout, "PROCESS", "UNTIL", "MEDIAN [LEAST-MOST]")
	for _, x := range r.Startup {
		for _, s := range x.Steps {
			t.row(x.What, s.Step, rangeOf(s.At, 1))
		}
		t.row(x.What, "first report done", rangeOf(x.Done, 1))
	}
	return t.flush()
}

func (a *app) printBenchIdle(r *bench.LatencyResult) error {
	i := r.Idle
	if i == nil {
		return nil
	}
	fmt.Fprintf(a.stdout, "\nIdle for %.0f seconds.\n", i.Seconds)
	t := newTable(a.stdout, "PROCESS", "CPU", "RESIDENT")
	t.row("guyline run, with the embedded store", fmt.Sprintf("%.2f %%", i.CPU), humanize.IBytes(uint64(i.RSS)))
	t.row("its inspection process", fmt.Sprintf("%.2f %%", i.InspectionCPU), humanize.IBytes(uint64(i.InspectionRSS)))
	return t.flush()
}

func rangeOf(r bench.Range, digits int) string {
	return fmt.Sprintf("%.*f [%.*f-%.*f]", digits, r.Median, digits, r.Min, digits, r.Max)
}

// benchWorkerCommand is the process whose start `guyline bench latency` times: `guyline run` with a handler that does nothing.
func (a *app) benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.WorkerCommand,
		Short:  "Work reports without inspecting them (for the use of `guyline bench latency`)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return a.benchWorker(cmd.Context()) },
	}
}

func (a *app) benchWorker(ctx context.Context) error {
	if _, err := part.Settings(ctx, a.stdin, &struct{}{}, nil); err != nil { // it would record results of nothing for an operator's reports
		return fmt.Errorf("%w: this command is for the use of `guyline bench latency` alone", err)
	}
	said := json.NewEncoder(a.stdout)
	step := func(name string) { _ = said.Encode(bench.Step{Step: name, At: time.Now()}) }
	step(bench.StepMain)
	s, err := a.open(ctx, serves)
	if err != nil {
		return err
	}
	defer s.Close()
	step(bench.StepStore)
	cfg := a.cfg.Consumer(version)
	cfg.InFlight = filepath.Join(a.cfg.DataDir, "inflight")
	var once sync.Once
	cfg.Observe = func(o consumer.Outcome) {
		if o.Kind == consumer.Succeeded {
			once.Do(func() { step(bench.StepDone) })
		}
	}
	nothing := func(context.Context, report.Event) (report.Result, error) {
		return report.NewResult(map[string]any{"pages": 0})
	}
	c, err := consumer.Open(ctx, s.js, nothing, cfg, a.log)
	if err != nil {
		return err
	}
	step(bench.StepReady)
	return c.Run(ctx)
}
