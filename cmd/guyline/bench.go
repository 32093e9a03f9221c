package main

import (
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/bench"
)

// benchServerCommand is what `guyline bench` starts as a server in a process of its own. It needs no configuration.
func (a *app) benchServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:               bench.ServerCommand,
		Short:             "Serve JetStream on loopback (for the use of `guyline bench`)",
		Hidden:            true,
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Serve(cmd.Context(), a.stdin, a.stdout, a.stderr)
		},
	}
}
