package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/report"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why {SITE URI | KEY}",
		Short: "Tell the whole story of one report",
		Long: "Tell the whole story of one report: where it stands and why, what helps, and every event. Of the key of a dead report the\n" +
			"beginning is enough. Times are UTC.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, site, key, err := a.openReport(cmd.Context(), args)
			if err != nil {
				return err
			}
			defer s.Close()
			return a.tell(cmd.Context(), s, site, key)
		},
	}
}

// openReport opens the store and finds the report that the arguments name: SITE URI, or KEY; of the key of a dead report the beginning
// is enough. Close the session when done.
func (a *app) openReport(ctx context.Context, args []string) (_ *session, site report.Token, key report.Key, err error) {
	prefix := len(args) == 1 && len(args[0]) < 64 && report.IsKeyPrefix(args[0])
	if !prefix {
		if site, key, err = reportOf(args); err != nil {
			return nil, "", "", err
		}
	}
	s, err := a.open(ctx, reads)
	if err != nil {
		return nil, "", "", err
	}
	if prefix {
		l, err := s.letters.Find(ctx, args[0])
		if err != nil {
			s.Close()
			return nil, "", "", fmt.Errorf("%w (of other reports give SITE and URI, or the whole key)", hintLetter(err))
		}
		site, key = l.Site, l.Key
	}
	return s, site, key, nil
}

func (a *app) tell(ctx context.Context, s *session, site report.Token, key report.Key) error {
	story, err := s.finder.Why(ctx, site, key)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(story)
	} else {
		err = a.printStory(story)
	}
	if err == nil && story.Fate == fate.Unknown {
		return errPerson
	}
	return err
}

func (a *app) printStory(s fate.Story) error {
	fmt.Fprintln(a.stdout, report.Line(strings.Join(s.Sentences, " "), maxLine))
	if s.Next != "" {
		fmt.Fprintln(a.stdout, "Next: "+report.Line(s.Next, maxLine)+".")
	}
	fmt.Fprintln(a.stdout)
	if s.SiteID != "" {
		fmt.Fprintf(a.stdout, "site    %s\n", report.Line(s.SiteID, 200))
	}
	if s.SourceURI != "" {
		fmt.Fprintf(a.stdout, "source  %s\n", report.Line(s.SourceURI, 2048))
	}
	fmt.Fprintf(a.stdout, "key     %s\n", report.Line(string(s.Key), 64))
	if len(s.Events) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	if s.Earlier > 0 {
		fmt.Fprintf(a.stdout, "%d earlier events: `guyline audit log %s`\n", s.Earlier, s.Key)
	}
	t := newTable(a.stdout, "TIME (UTC)", "EVENT", "ATTEMPT", "BY", "CODE", "REASON")
	for _, l := range s.Events {
		attempt := ""
		if l.Attempt > 0 {
			attempt = fmt.Sprint(l.Attempt)
		}
		t.row(l.Time.UTC().Format("2006-01-02 15:04:05"), strings.ReplaceAll(l.What, "_", " "), attempt, l.By, string(l.Code), cmp.Or(l.Reason, "-"))
	}
	return t.flush()
}
