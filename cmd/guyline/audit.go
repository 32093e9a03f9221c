package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/report"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := group("audit", "The audit trail")
	cmd.AddCommand(&cobra.Command{
		Use:   "log [SITE URI | KEY]",
		Short: "Print the trail, whole or of one report",
		Args:  cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			site, key := report.Token("*"), report.Key("*")
			if len(args) > 0 {
				var err error
				if site, key, err = reportOf(args); err != nil {
					return err
				}
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			t := newTable(a.stdout, "TIME", "EVENT", "KEY", "SITE", "BY", "CODE", "REASON")
			n := 0
			for e, err := range s.trail.Log(cmd.Context(), site, key) {
				if err != nil {
					return err
				}
				n++
				if a.json {
					if err := a.printJSON(e); err != nil {
						return err
					}
					continue
				}
				t.row(short(e.Time), string(e.Kind), e.Key.Short(), e.SiteID, e.Actor+e.Worker, string(e.Code), e.Reason)
			}
			switch {
			case n == 0 && len(args) > 0:
				return errors.New("the trail has no event of this report: it succeeded at once, or was never handed over (`guyline show` tells)")
			case a.json || n == 0:
				return nil
			}
			return t.flush()
		},
	})
	return cmd
}
