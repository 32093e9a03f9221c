package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/bench"
	"github.com/guyline/guyline/keyvalue"
)

func (a *app) benchPublishCommand() *cobra.Command {
	var (
		server, sync string
		cfg          bench.PublishConfig
	)
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Measure `publish FILE` against publishing the same messages with nats.go and nothing else",
		Long: "Measure `publish FILE` against publishing the same messages, made beforehand, with nats.go's PublishMsgAsync and a window of\n" +
			"4,096. The file is read twice, every row is checked, and the ledger is asked about every report.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Place, err = a.benchPlace(server, sync); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			cfg.Version = version
			ctx := cmd.Context()
			r, err := bench.Publish(ctx, cfg, a.publishList, a.log)
			return printMeasured(ctx, a, r, err, a.printBenchPublish)
		},
	}
	f := cmd.Flags()
	benchPlaceFlags(cmd, &server, &sync)
	f.IntVar(&cfg.Rows, "rows", 100_000, "of the list, each another report")
	f.IntVar(&cfg.Known, "known", 0, "reports that the ledger has, none of them in the list")
	f.IntVar(&cfg.Reps, "reps", 5, "repetitions, each of which publishes the list in both ways")
	f.BoolVar(&cfg.Lines, "lines", false, "the list is JSON lines instead of a CSV")
	return cmd
}

// publishList is the publish command on a connection.
func (a *app) publishList(ctx context.Context, nc *nats.Conn, file string) (accepted int64, err error) {
	s := &session{nc: nc}
	if s.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(asyncPatience)); err != nil {
		return 0, err
	}
	if s.ledger, err = keyvalue.OpenLedger(ctx, s.js); err != nil {
		return 0, err
	}
	list, err := a.openList(ctx, file, false)
	if err != nil {
		return 0, err
	}
	defer list.Close()
	r, err := a.publish(ctx, s, list)
	return r.Accepted, err
}

func (a *app) printBenchPublish(r *bench.PublishResult) error {
	kind := "CSV"
	if r.Lines {
		kind = "JSON lines"
	}
	t := a.benchSettings(r.Settings)
	t.row("list", fmt.Sprintf("%s, %d rows; the ledger has %d other reports", kind, r.Rows, r.Known))
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	t = newTable(a.stdout, "PUBLISHER", "REP", "REPORTS/S", "CPU S/100K", "CLIENT", "SERVER")
	memory := func(n *int64) string {
		if n == nil {
			return "unknown"
		}
		return humanize.IBytes(uint64(*n))
	}
	for i, raw := range r.Raw {
		for _, lap := range []struct {
			name string
			bench.PublishLap
		}{{"raw", raw}, {"guyline", r.Guyline[i]}} {
			t.row(lap.name, fmt.Sprint(lap.Repetition), fmt.Sprintf("%.0f", lap.Rate), maybe(lap.CPU), memory(lap.Client), memory(lap.Server))
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	verdict := "missed"
	if r.Rate.Median >= 0.90 {
		verdict = "reached"
	}
	_, err := fmt.Fprintf(a.stdout, "\nguyline / raw: rate %s, CPU %s; the goal, a rate of at least 0.90, is %s\n", rangeOf(r.Rate, 3), maybeRange(r.CPU), verdict)
	return err
}
