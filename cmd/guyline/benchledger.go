package main

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/bench"
)

func (a *app) benchLedgerCommand() *cobra.Command {
	cfg := bench.LedgerConfig{Keys: 100_000, Lookups: 10_000}
	place := bench.Config{Mode: bench.Separate, Sync: bench.Interval}
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Fill a ledger and measure what it costs at that size",
		Long: "Fill a ledger and measure what it costs at that size: memory, disk, commits, look-ups and restarts. The server is a process of\n" +
			"its own with a temporary store, if nothing else is said; 1,000,000 keys need 1 GB of memory and disk.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			p, err := bench.Open(cmd.Context(), place)
			if err != nil {
				return err
			}
			defer p.Close()
			r, err := bench.Ledger(cmd.Context(), p, cfg, a.say)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			return a.printLedger(r)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Keys, "keys", cfg.Keys, "entries in the ledger")
	f.IntVar(&cfg.Lookups, "lookups", cfg.Lookups, "entries to ask for, in each way")
	f.IntVar(&cfg.Text, "text", cfg.Text, "bytes of text in each result, on top of some 550")
	f.StringVar((*string)(&place.Mode), "mode", string(place.Mode), "embedded, separate or given")
	f.StringVar(&place.URL, "url", "", "of a given server; its ledger must be empty, and stays filled")
	f.StringVar((*string)(&place.Sync), "sync", string(place.Sync), "always or interval, of a server of ours")
	f.StringVar(&place.Dir, "dir", "", "for the store; none: a temporary one")
	return cmd
}

func (a *app) printLedger(r bench.LedgerReport) error {
	keys := int64(r.Keys)
	t := newTable(a.stdout)
	t.row("keys", humanize.Comma(keys))
	t.row("bytes of an entry", humanize.Comma(int64(r.Entry)))
	t.row("memory before, filled, after look-ups", humanize.IBytes(uint64(r.Empty)), humanize.IBytes(uint64(r.Filled)), humanize.IBytes(uint64(r.Read)))
	t.row("memory a key, bytes", fmt.Sprint((r.Filled-r.Empty)/keys), fmt.Sprint((r.Read-r.Empty)/keys))
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
