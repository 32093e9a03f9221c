package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/report"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show {SITE URI | KEY}",
		Short: "Show the fate and the result of one report",
		Long:  "Show the fate and the result of one report. Of the key of a dead report the beginning is enough.",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, site, key, err := a.openReport(cmd.Context(), args)
			if err != nil {
				return err
			}
			defer s.Close()
			answer, err := s.finder.Of(cmd.Context(), site, key)
			if err != nil {
				return err
			}
			if err := a.printAnswer(answer); err != nil {
				return err
			}
			if answer.Fate == fate.Unknown {
				return errPerson
			}
			return nil
		},
	}
}

func (a *app) printAnswer(f fate.Answer) error {
	if a.json {
		out := struct {
			Fate        fate.Fate    `json:"fate"`
			Key         report.Key   `json:"key"`
			Parked      bool         `json:"parked,omitempty"`
			Quarantined bool         `json:"quarantined,omitempty"`
			Result      *resultLine  `json:"settled,omitempty"`
			Letter      *dlq.Letter  `json:"letter,omitempty"`
			Discarded   *audit.Event `json:"discarded,omitempty"`
			Forgets     string       `json:"settled_forgotten_after,omitempty"` // of discarded and unknown
		}{Fate: f.Fate, Key: f.Key, Parked: f.Parked, Discarded: f.Discarded}
		if f.Forgets > 0 {
			out.Forgets = span(f.Forgets)
		}
		switch f.Fate {
		case fate.Done:
			out.Result = newResultLine(*f.Entry)
		case fate.Dead:
			out.Letter, out.Quarantined = f.Letter, f.Quarantined
		}
		return a.printJSON(out)
	}
	t := newTable(a.stdout)
	t.row("fate", string(f.Fate))
	if f.Fate != fate.Dead { // a letter's rows begin with it
		t.row("key", string(f.Key))
	}
	switch f.Fate {
	case fate.Done:
		t.row("site", f.Entry.SiteID)
		t.row("source", report.RedactSource(f.Entry.SourceURI))
		t.row("since", when(f.Entry.Time))
		t.row("attempts", fmt.Sprint(f.Entry.Attempts))
		t.row("worker", f.Entry.Worker)
		if err := t.flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "result    %s\n", report.Line(string(f.Entry.Result), report.MaxResult))
		return err
	case fate.Waiting:
		if m := f.Message; m != nil {
			t.row("site", m.Event.SiteID)
			t.row("source", report.RedactSource(m.Event.SourceURI))
			t.row("published", when(m.PublishedAt))
			t.row("in", m.Ref.Stream)
		}
		if f.Parked {
			t.row("parked", "it is put back into the queue later")
			if p := f.Message.Carried.Parking; p != nil {
				t.row("because", p.Upstream+" went down "+when(p.Since))
				t.row("reason", report.Line(p.Reason, report.MaxReason))
			}
		}
	case fate.Dead:
		letterRows(t, *f.Letter, f.Quarantined)
	case fate.Discarded:
		t.row("by", f.Discarded.Actor)
		t.row("at", when(f.Discarded.Time))
		t.row("reason", f.Discarded.Reason)
		if f.Forgets > 0 && time.Since(f.Discarded.Time) > f.Forgets {
			t.row("", "settled reports are forgotten after "+fate.Days(f.Forgets)+": it may have landed since")
		}
	case fate.Unknown:
		never := "never handed over under this site and source; both are compared as written"
		if f.Forgets > 0 {
			never = "never handed over under this site and source, which are compared as written; or settled more than " + fate.Days(f.Forgets) + " ago, and forgotten"
		}
		t.row("", never)
	}
	return t.flush()
}
