package main

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/bench"
)

func (a *app) benchLedgerCommand() *cobra.Command {
	cfg := bench.LedgerConfig{Keys: 100_000, Lookups: 10_000}
	var server, sync string
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Fill a ledger and measure what it costs at that size",
		Long: "Fill a ledger and measure what it costs at that size: memory, disk, commits, look-ups and restarts. It starts its own server with a\n" +
			"temporary store. 1,000,000 keys need 0.8 GB of disk, up to 1.5 GB of memory, and a minute or two.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if server == string(bench.Given) {
				return usageError{errors.New("--server given is not for a ledger, which would stay filled")}
			}
			var err error
			if cfg.Place, err = a.benchPlace(server, sync); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			cfg.Version = version
			r, err := bench.Ledger(cmd.Context(), cfg, a.say)
			return printMeasured(cmd.Context(), a, r, err, a.printLedger)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Keys, "keys", cfg.Keys, "entries in the ledger")
	f.IntVar(&cfg.Lookups, "lookups", cfg.Lookups, "entries to ask for, in each way")
	f.IntVar(&cfg.Text, "text", cfg.Text, "bytes of text in each result; an entry has some 550 bytes without")
	f.StringVar(&server, "server", string(bench.Separate), "separate: a process of its own, over loopback; embedded: in this process, without restarts")
	f.StringVar(&sync, "sync", string(bench.Interval), "interval: an acknowledged write survives the end of the process; always: a power cut")
	return cmd
}

func (a *app) printLedger(r *bench.LedgerResult) error {
	keys := int64(r.Keys)
	t := a.benchSettings(r.Settings)
	t.row("keys", humanize.Comma(keys))
	t.row("bytes of an entry", humanize.Comma(int64(r.Entry)))
	if r.Filled > 0 { // else it is unknown
		t.row("memory before, filled, after look-ups", humanize.IBytes(uint64(r.Empty)), humanize.IBytes(uint64(r.Filled)), humanize.IBytes(uint64(r.Read)))
		t.row("memory a key, bytes", fmt.Sprint((r.Filled-r.Empty)/keys), fmt.Sprint((r.Read-r.Empty)/keys))
	}
	t.row("disk, and a key, bytes", humanize.IBytes(uint64(r.Disk)), fmt.Sprint(r.Disk/keys))
	for _, x := range []struct {
		how string
		r   *bench.Recovery
	}{{"restart after a stop", r.Stopped}, {"restart after kill -9", r.Killed}} {
		if x.r != nil {
			t.row(x.how, fmt.Sprintf("%.1f s", x.r.Seconds), humanize.IBytes(uint64(x.r.RSS)))
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	t = newTable(a.stdout, "WHAT", "COUNT", "PER SECOND", "CPU S PER 100K", "MEDIAN MS", "LONGEST MS")
	row := func(what string, c bench.Cost) {
		t.row(what, humanize.Comma(int64(c.Count)), fmt.Sprintf("%.0f", c.Rate), fmt.Sprintf("%.2f", c.CPU), fmt.Sprintf("%.1f", c.Median), fmt.Sprintf("%.1f", c.Most))
	}
	row("create, first", r.First)
	row("create, last", r.Last)
	for _, l := range r.Lookups {
		row(l.Way, l.Cost)
	}
	return t.flush()
}
