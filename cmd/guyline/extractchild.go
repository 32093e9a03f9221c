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
			if err := extract.Child(cmd.Context(), args); err != nil {
				return exitError{err, limits.ExitConfig}
			}
			return nil
		},
	}
}
