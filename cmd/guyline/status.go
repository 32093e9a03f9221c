package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show where all reports stand",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return a.watch(cmd.Context())
			}
			return a.look(cmd.Context(), false)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "again every two seconds, until stopped")
	return cmd
}

// watch looks again and again. The store is free between two looks, so that others can work with it. Once it has seen something, it
// waits for a server that is away.
func (a *app) watch(ctx context.Context) error {
	for seen := false; ; {
		err := a.look(ctx, true)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			seen = true
		case seen || errors.Is(err, embedded.ErrHeld):
			a.log.Warn("no look this time", "err", err)
		default:
			return err
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// look prints the status once.
func (a *app) look(ctx context.Context, watch bool) error {
	s, err := a.open(ctx, reads)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.printStatus(ctx, s, watch)
}

func (a *app) printStatus(ctx context.Context, s *session, watch bool) error {
	c, err := a.count(ctx, s)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(c)
	}
	if watch && isTerminal(a.stdout) {
		fmt.Fprint(a.stdout, "\x1b[H\x1b[2J") // home, clear
	}
	t := newTable(a.stdout)
	t.row("waiting", fmt.Sprint(c.Waiting))
	t.row("in work", fmt.Sprint(c.InWork), "or waiting for a retry")
	t.row("parked", fmt.Sprint(c.Parked))
	for i, d := range c.Down {
		if i == shownDown {
			t.row("", "", fmt.Sprintf("and of %d other upstreams", len(c.Down)-i))
			break
		}
		t.row("", fmt.Sprint(d.Parked), fmt.Sprintf("%s went down %s: %s", d.Upstream, when(d.Since), report.Line(d.Reason, 100)))
	}
	t.row("done", fmt.Sprint(c.Done))
	t.row("dead", fmt.Sprint(c.DeadTotal()), classes(c))
	if c.Quarantined > 0 {
		t.row("quarantined", fmt.Sprint(c.Quarantined), "of the dead: `guyline dlq ls --quarantined`")
	}
	stranded := ""
	if c.Stranded > 0 {
		stranded = "the next sweep of a worker looks at them"
	}
	t.row("stranded", fmt.Sprint(c.Stranded), stranded)
	if !c.Oldest.IsZero() {
		t.row("oldest", when(c.Oldest))
	}
	if !c.NextDue.IsZero() {
		t.row("next due", when(c.NextDue), "among the dead")
	}
	for _, queue := range c.Paused {
		t.row("paused", queue, "nothing is delivered: `nats consumer resume "+queue+" "+stream.Consumer+"`")
	}
	switch {
	case c.Pulling > 0:
		t.row("workers", "pulling")
	case c.InWork > 0:
		t.row("workers", "none is pulling", "all are busy, or there are none: `guyline run` starts one")
	default:
		t.row("workers", "none is pulling", "`guyline run` starts one")
	}
	if err := t.flush(); err != nil || c.DueSoon == 0 {
		return err
	}
	return a.printSoon(c)
}

// printSoon lists the dead whose deadline is near.
func (a *app) printSoon(c fate.Counts) error {
	are := "are"
	if c.DueSoon == 1 {
		are = "is"
	}
	fmt.Fprintf(a.stdout, "\n%d of the dead %s due within %s, or overdue:\n", c.DueSoon, are, span(a.cfg.DueWarn))
	t := newTable(a.stdout, "  DUE", "KEY", "SITE", "CODE", "REASON")
	for _, d := range c.Soonest {
		t.row("  "+when(d.Due), d.Key.Short(), d.SiteID, string(d.Code), report.Line(d.Reason, maxLsReason))
	}
	if err := t.flush(); err != nil || c.DueSoon <= uint64(len(c.Soonest)) {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "  all of them: `guyline dlq ls --due-within %s`\n", span(a.cfg.DueWarn))
	return err
}

// span writes a duration without the parts that are zero: 24h.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// count looks a few times before it says that no worker is pulling, as there is a moment between two pulls.
func (a *app) count(ctx context.Context, s *session) (fate.Counts, error) {
	var soon time.Time
	if a.cfg.DueWarn > 0 {
		soon = time.Now().Add(a.cfg.DueWarn)
	}
	c, err := s.finder.CountDue(ctx, soon)
	for n := 0; n < 2 && c.Pulling == 0 && err == nil; n++ {
		select {
		case <-time.After(20 * time.Millisecond):
			c.Pulling, err = s.finder.Pulling(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return c, err
}

// shownDown is how many upstreams that are down are shown by name.
const shownDown = 10

func classes(c fate.Counts) string {
	var parts []string
	for class, n := range c.Dead {
		parts = append(parts, fmt.Sprintf("%d %s", n, report.Line(string(class), 20)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
