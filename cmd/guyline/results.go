package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

func (a *app) resultsCommand() *cobra.Command {
	var site, since, until string
	cmd := &cobra.Command{
		Use:   "results",
		Short: "List the settled reports with their results",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, to, err := parseSpan(since, until)
			if err != nil {
				return err
			}
			if err := siteFlag(site); err != nil {
				return err
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			token := report.Token("*")
			if site != "" {
				token = report.NewToken(site)
			}
			t := newTable(a.stdout, "DONE", "SITE", "SOURCE", "ATTEMPTS", "RESULT")
			n := 0
			for e, err := range s.ledger.All(cmd.Context(), token) {
				if err != nil {
					return err
				}
				if e.State != keyvalue.Done || e.Time.Before(from) || !to.IsZero() && !e.Time.Before(to) {
					continue
				}
				n++
				if a.json {
					if err := a.printJSON(newResultLine(e)); err != nil {
						return err
					}
					continue
				}
				t.row(short(e.Time), e.SiteID, report.RedactSource(e.SourceURI), fmt.Sprint(e.Attempts), string(e.Result))
			}
			if a.json {
				return nil
			}
			if n == 0 {
				fmt.Fprintln(a.stdout, "no settled report")
				return nil
			}
			return t.flush()
		},
	}
	cmd.Flags().StringVar(&site, "site", "", "only this site_id")
	cmd.Flags().StringVar(&since, "since", "", "settled at or after: a time, a date, or an age like 24h")
	cmd.Flags().StringVar(&until, "until", "", "settled before")
	return cmd
}

// resultLine is a settled report as JSON.
type resultLine struct {
	Key       report.Key    `json:"key"`
	SiteID    string        `json:"site_id"`
	SourceURI string        `json:"source_uri"`
	Result    report.Result `json:"result"`
	Attempts  int           `json:"attempts"`
	Worker    string        `json:"worker"`
	Time      time.Time     `json:"time"`
}

func newResultLine(e keyvalue.Entry) *resultLine {
	return &resultLine{e.Key(), e.SiteID, e.SourceURI, e.Result, e.Attempts, e.Worker, e.Time}
}
