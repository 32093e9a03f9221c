package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

func (a *app) sitesCommand() *cobra.Command {
	cmd := group("sites", "The registry of known sites")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "import FILE",
			Short: "Make the sites of a file the registry, all or nothing",
			Long: "Make the sites of a file the registry, all or nothing: CSV with a column site_id, or JSON lines with site_id. Sites that\n" +
				"it does not name are unknown from then on, and their reports are dead-lettered as unknown-site. Before the first import\n" +
				"every site is known.",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				f, err := os.Open(args[0])
				if err != nil {
					return usageError{fmt.Errorf("read the sites: %w", err)}
				}
				defer f.Close()
				sites, err := keyvalue.ReadSites(f)
				if err != nil {
					return usageError{fmt.Errorf("read the sites in %s: %w; nothing was imported", args[0], err)}
				}
				s, err := a.open(cmd.Context(), writes)
				if err != nil {
					return err
				}
				defer s.Close()
				if err := s.sites.Import(cmd.Context(), sites); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]int{"sites": len(sites)})
				}
				known := fmt.Sprint(len(sites), " sites are known, and no others")
				if len(sites) == 1 {
					known = "1 site is known, and no other"
				}
				_, err = fmt.Fprintln(a.stdout, known)
				return err
			},
		},
		&cobra.Command{
			Use:   "ls",
			Short: "List the known sites",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				s, err := a.open(cmd.Context(), reads)
				if err != nil {
					return err
				}
				defer s.Close()
				n := 0
				for site, err := range s.sites.All(cmd.Context()) {
					if err != nil {
						return err
					}
					n++
					if a.json {
						err = a.printJSON(map[string]string{"site_id": site})
					} else {
						_, err = fmt.Fprintln(a.stdout, report.Line(site, report.MaxSiteID))
					}
					if err != nil {
						return err
					}
				}
				if n == 0 && !a.json {
					fmt.Fprintln(a.stderr, "no site was imported yet: every site is known")
				}
				return nil
			},
		},
	)
	return cmd
}
