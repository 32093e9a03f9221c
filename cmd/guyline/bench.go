package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/bench"
)

func (a *app) benchCommand() *cobra.Command {
	var (
		server, sync, profile  string
		designs                []string
		reports, reps, workers int
	)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the throughput on this machine, against the server alone and simpler designs",
		Long: "Measure the throughput on this machine, against the server alone and simpler designs: see docs/performance.md.\n" +
			"It starts its own server with a temporary store, unless told otherwise, and touches nothing else. Rates depend on the machine\n" +
			"and on what else it does; trust the ratios, each of which compares two laps of the same repetition, and the processor time.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := a.benchPlace(server, sync)
			if err != nil {
				return err
			}
			cfg := bench.DefaultThroughput(place.Mode, place.Sync)
			cfg.Place, cfg.Version = place, version
			f := cmd.Flags()
			if f.Changed("n") {
				cfg.Reports = reports
			}
			if f.Changed("designs") {
				cfg.Designs = nil
				for _, d := range designs {
					cfg.Designs = append(cfg.Designs, bench.Design(d))
				}
			}
			cfg.Reps, cfg.Workers, cfg.Profile = reps, workers, profile
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			return a.bench(cmd.Context(), cfg)
		},
	}
	usual, synced := bench.DefaultThroughput(bench.Separate, bench.Interval), bench.DefaultThroughput(bench.Separate, bench.Always)
	f := cmd.Flags()
	benchPlaceFlags(cmd, &server, &sync)
	f.IntVar(&reports, "n", usual.Reports, fmt.Sprintf("reports in the backlog of each lap; with --sync always %d", synced.Reports))
	f.IntVar(&reps, "reps", usual.Reps, "repetitions, each of which runs every design once")
	f.IntVar(&workers, "workers", usual.Workers, "of guyline, as GUYLINE_WORKERS")
	f.StringSliceVar(&designs, "designs", nil, "only these, separated by commas: "+benchNames(usual.Designs)+
		"\n(default all; with --sync always "+benchNames(synced.Designs)+")")
	f.StringVar(&profile, "profile", "", "a directory for profiles of each lap: DESIGN-REPETITION.pprof of this process and\n"+
		"DESIGN-REPETITION-server.pprof; they cost a little")
	cmd.AddCommand(a.benchLatencyCommand(), a.benchLedgerCommand(), a.benchPublishCommand())
	return cmd
}

// benchPlaceFlags are the flags that say where to measure.
func benchPlaceFlags(cmd *cobra.Command, server, sync *string) {
	f := cmd.Flags()
	f.StringVar(server, "server", string(bench.Separate), "separate: a process of its own, over loopback; embedded: in this process, as without GUYLINE_NATS_URL;\n"+
		"given: at GUYLINE_NATS_URL, with GUYLINE_REPLICAS, where Guyline must not be set up; what is made there is deleted again")
	f.StringVar(sync, "sync", string(bench.Interval), "interval: an acknowledged write survives the end of the process; always: a power cut. As GUYLINE_SYNC,\n"+
		"which is always unless set; a given server has its own")
}

// benchPlace is what those flags say.
func (a *app) benchPlace(server, sync string) (bench.Config, error) {
	cfg := bench.Config{Mode: bench.Mode(server), Sync: bench.Sync(sync), URL: strings.Join(a.cfg.Servers(), ",")}
	if cfg.Mode == bench.Given && cfg.URL == "" {
		return cfg, usageError{errors.New("--server given needs an address in GUYLINE_NATS_URL")}
	}
	if cfg.Mode == bench.Given {
		cfg.Replicas = a.cfg.Replicas
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	if cfg.Mode == bench.Given {
		nc, err := a.dial(a.connOptions()...) // before anything is measured
		if err != nil {
			return cfg, err
		}
		nc.Close()
	}
	return cfg, nil
}

func benchNames(designs []bench.Design) string {
	var words []string
	for _, d := range designs {
		words = append(words, string(d))
	}
	return strings.Join(words, ",")
}

func (a *app) bench(ctx context.Context, cfg bench.ThroughputConfig) error {
	r, err := bench.Throughput(ctx, cfg, a.log)
	return printMeasured(ctx, a, r, err, a.printBench)
}

// printMeasured shows the result of a bench with print, or as JSON, or says why there is none.
func printMeasured[R any](ctx context.Context, a *app, r R, err error, print func(R) error) error {
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped before everything was measured")
	case err != nil:
		return err
	case a.json:
		return a.printJSON(r)
	}
	return print(r)
}

func (a *app) printBench(r *bench.ThroughputResult) error {
	for _, show := range []func(*bench.ThroughputResult) error{a.printBenchSettings, a.printBenchDesigns, a.printBenchRatios, a.printBenchGoals} {
		if err := show(r); err != nil {
			return err
		}
	}
	return nil
}

// benchSettings begins a table with what was measured on what.
func (a *app) benchSettings(s bench.Settings) table {
	t := newTable(a.stdout)
	t.row("versions", fmt.Sprintf("guyline %s, nats-server %s, nats.go %s, %s %s", s.Version, s.Server, s.Client, s.Go, s.Platform))
	t.row("machine", fmt.Sprintf("%d CPUs, load average %s before and %s after", s.CPUs, maybe(s.LoadBefore), maybe(s.LoadAfter)))
	server := string(s.Mode)
	if s.Sync != "" {
		server += ", sync " + string(s.Sync)
	}
	if s.Replicas > 1 {
		server += fmt.Sprintf(", %d replicas", s.Replicas)
	}
	t.row("server", server)
	return t
}

func (a *app) printBenchSettings(r *bench.ThroughputResult) error {
	s := r.Settings
	t := a.benchSettings(s)
	t.row("laps", fmt.Sprintf("%d repetitions of %d reports each; guyline has %d workers", s.Reps, s.Reports, s.Workers))
	for _, c := range r.Checks {
		t.row("checked", fmt.Sprintf("%s: %d reports, %d done, %d duplicates", c.Design, c.Reports, c.Done, c.Duplicates))
	}
	return t.flush()
}

func (a *app) printBenchDesigns(r *bench.ThroughputResult) error {
	fmt.Fprintln(a.stdout, "\nMedian [least-most] of the repetitions; memory is the most that was resident.")
	t := newTable(a.stdout, "DESIGN", "REPORTS/S", "CPU S/100K", "CLIENT", "SERVER")
	for _, d := range r.Designs {
		memory := func(x *bench.Range) string {
			if x == nil {
				return "unknown"
			}
			return humanize.IBytes(uint64(x.Median))
		}
		server := memory(d.Server)
		if r.Settings.Mode == bench.Embedded {
			server = "in client"
		}
		t.row(string(d.Design), fmt.Sprintf("%.0f [%.0f-%.0f]", d.Rate.Median, d.Rate.Min, d.Rate.Max), maybeRange(d.CPU), memory(d.Client), server)
	}
	return t.flush()
}

// printBenchRatios prints two tables, of rates and of processor time, with a line for each design and a column for each yardstick.
func (a *app) printBenchRatios(r *bench.ThroughputResult) error {
	if len(r.Ratios) == 0 {
		return nil
	}
	to := slices.DeleteFunc(bench.Yardsticks(), func(d bench.Design) bool {
		return !slices.ContainsFunc(r.Ratios, func(x bench.Ratio) bool { return x.To == d })
	})
	for _, of := range []struct {
		head  string
		value func(bench.Ratio) *bench.Range
	}{
		{"RATE /", func(x bench.Ratio) *bench.Range { return &x.Rate }}, {"CPU /", func(x bench.Ratio) *bench.Range { return x.CPU }},
	} {
		fmt.Fprintln(a.stdout)
		heads := []string{of.head}
		for _, d := range to {
			heads = append(heads, string(d))
		}
		t := newTable(a.stdout, heads...)
		for _, d := range r.Designs {
			row := []string{string(d.Design)}
			for _, yardstick := range to {
				cell := "-"
				if i := slices.IndexFunc(r.Ratios, func(x bench.Ratio) bool { return x.Design == d.Design && x.To == yardstick }); i >= 0 {
					cell = maybeRange(of.value(r.Ratios[i]))
				}
				row = append(row, cell)
			}
			t.row(row...)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printBenchGoals(r *bench.ThroughputResult) error { return a.printGoals(r.Goals) }

func (a *app) printGoals(goals []bench.Goal) error {
	if len(goals) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	t := newTable(a.stdout, "GOAL", "OF GUYLINE", "REACHED", "ACCEPT", "WORLD-CLASS", "VERDICT")
	for _, g := range goals {
		sign := ">="
		if g.AtMost {
			sign = "<="
		}
		line := func(x float64) string { return sign + " " + strconv.FormatFloat(x, 'f', 2, 64) }
		t.row(strconv.Itoa(g.Number), g.What, reached(g), line(g.Accept), line(g.WorldClass), string(g.Verdict))
	}
	return t.flush()
}

// reached is shown with as many digits as it takes to see on which side of the lines the median is.
func reached(g bench.Goal) string {
	digits := 2
	for shown := g; digits < 6; digits++ {
		shown.Reached.Median, _ = strconv.ParseFloat(strconv.FormatFloat(g.Reached.Median, 'f', digits, 64), 64)
		if shown.Judge() == g.Verdict {
			break
		}
	}
	return rangeOf(g.Reached, digits)
}

func maybe(x *float64) string {
	if x == nil {
		return "unknown"
	}
	return strconv.FormatFloat(*x, 'f', 2, 64)
}

func maybeRange(r *bench.Range) string {
	if r == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f [%.2f-%.2f]", r.Median, r.Min, r.Max)
}

// benchServerCommand is what `guyline bench` starts as a server in a process of its own. It needs no configuration.
func (a *app) benchServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:               bench.ServerCommand,
		Short:             "Serve JetStream on loopback (for the use of `guyline bench`)",
		Hidden:            true,
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Serve(cmd.Context(), a.stdin, a.stdout, a.stderr)
		},
	}
}
