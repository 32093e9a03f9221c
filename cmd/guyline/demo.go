package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Work two reports with a scripted handler, in a temporary store",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
}

// demo publishes two reports, works them with a scripted handler, and replays what died.
func (a *app) demo(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "guyline-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	a.cfg.NATSURL, a.cfg.DataDir, a.cfg.Replicas = "", dir, 1
	s, err := a.open(ctx, writes)
	if err != nil {
		return err
	}
	defer s.Close()

	fmt.Fprintln(a.stdout, "A scripted handler plays the work: no file is read.")
	script := demoScript{runs: map[string]int{}}
	list := publication{total: 2, rows: slices.Values([]report.Row{
		demoRow("TWR-8842", "s3://reports/twr8842_q2.pdf"),
		demoRow("TWR-9017", "s3://reports/twr9017_corrupt.pdf"),
	})}
	sent, err := a.publish(ctx, s, list)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "published: %d\n", sent.Accepted)
	if err := a.work(ctx, s, script.handle, newTally(), true); err != nil {
		return err
	}
	letters, err := a.demoLetters(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "dead-lettered: %d\n", len(letters))
	for _, l := range letters {
		fmt.Fprintf(a.stdout, "  %s %s: %s\n  audit hash %s\n", l.SiteID(), l.Class, l.Reason, l.Hash)
		if _, err := s.letters.Replay(ctx, l.Sequence, dlq.By{Actor: a.actor, Reason: "demo"}); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stdout, "replayed: %d\n", len(letters))
	if err := a.work(ctx, s, script.handle, newTally(), true); err != nil {
		return err
	}
	if letters, err = a.demoLetters(ctx, s); err != nil {
		return err
	}
	for e, err := range s.ledger.All(ctx, "*") {
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "done: %s at attempt %d, result %s\n", e.SiteID, e.Attempts, e.Result)
	}
	for _, l := range letters {
		fmt.Fprintf(a.stdout, "dead: %s, replays %d\n", l.SiteID(), l.Replays)
	}
	fmt.Fprintf(a.stdout, "dead-lettered after replay: %d\n", len(letters))
	return nil
}

func (a *app) demoLetters(ctx context.Context, s *session) (letters []dlq.Letter, err error) {
	for l, err := range s.letters.List(ctx, dlq.Filter{}) {
		if err != nil {
			return nil, err
		}
		letters = append(letters, l)
	}
	return letters, nil
}

func demoRow(site, uri string) report.Row {
	row, err := singleRow(site, uri, time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly))
	row.Err = err
	return row
}

// demoScript fails one report once with a time-out, and finds the other corrupt each time.
type demoScript struct {
	mu   sync.Mutex
	runs map[string]int
}

func (d *demoScript) handle(_ context.Context, e report.Event) (report.Result, error) {
	d.mu.Lock()
	d.runs[e.SiteID]++
	run := d.runs[e.SiteID]
	d.mu.Unlock()
	switch {
	case e.SiteID == "TWR-9017":
		return nil, report.Poison(report.CodeMalformedPDF, errors.New("unparseable structure in "+e.SourceURI))
	case run == 1:
		return nil, report.Transient(report.CodeTimeout, errors.New("the source did not answer in time"))
	}
	return report.NewResult(map[string]any{"pages": 12})
}
