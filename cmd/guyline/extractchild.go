package main

import (
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/extract"
	"github.com/guyline/guyline/extract/limits"
)

// extractChildCommand is what the worker starts to inspect files. It needs no configuration and gets no environment.
func (a *app) extractChildCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "extract-child",
		Short:              "Inspect files for a worker (for guyline's own use)",
		Hidden:             true,
		DisableFlagParsing: true,
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			err := extract.Child(cmd.Context(), args)
			if err != nil && len(args) > 0 && args[0] == "exec" {
				return exitError{err, limits.ExitConfig} // the extractor was not even started
			}
			return err
		},
	}
}
