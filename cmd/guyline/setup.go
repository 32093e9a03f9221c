package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/stream"
)

func (a *app) setupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "setup",
		Short: "Create or upgrade streams, consumers and buckets",
		Long: "Create or upgrade streams, consumers and buckets. With an embedded store this happens by itself; on a NATS server\n" +
			"it is needed once, and again after GUYLINE_MAX_ATTEMPTS, GUYLINE_ACK_WAIT, GUYLINE_REPLICAS or the limits have changed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd.Context(), setsUp)
			if err != nil {
				return err
			}
			defer s.Close()
			streams := append(stream.Names(), dlq.Stream, audit.Stream, proof.Stream)
			if a.json {
				return a.printJSON(map[string]any{"streams": streams, "consumer": stream.Consumer, "buckets": []string{"reports_ledger", "reports_sites", "reports_turns"}, "replicas": a.cfg.Replicas})
			}
			t := newTable(a.stdout)
			for _, name := range streams {
				t.row(name, "ready")
			}
			t.row("reports_ledger", "ready")
			t.row("reports_sites", "ready")
			t.row("reports_turns", "ready")
			return t.flush()
		},
	}
}

func (a *app) configCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Show every variable: value, default, allowed, meaning",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			vars := a.cfg.Vars()
			if a.json {
				for _, v := range vars {
					if err := a.printJSON(v); err != nil {
						return err
					}
				}
				return nil
			}
			t := newTable(a.stdout, "VARIABLE", "VALUE", "DEFAULT", "ALLOWED", "MEANING")
			for _, v := range vars {
				t.row(v.Name, v.Value, v.Default, v.Allowed, v.Meaning)
			}
			return t.flush()
		},
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			modules := map[string]string{}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, dep := range info.Deps {
					modules[dep.Path] = dep.Version
				}
			}
			server := modules["github.com/nats-io/nats-server/v2"]
			if a.json {
				return a.printJSON(map[string]string{"version": version, "go": runtime.Version(), "nats_server": server,
					"platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintf(a.stdout, "guyline %s, %s %s/%s, embedded nats-server %s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, server)
			return err
		},
	}
}
