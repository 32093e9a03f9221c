package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/stream"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create or upgrade streams, consumers and buckets",
		Long: "Create or upgrade streams, consumers and buckets. With an embedded store this happens by itself; on a NATS server\n" +
			"it is needed once, and again after GUYLINE_MAX_ATTEMPTS, GUYLINE_ACK_WAIT, GUYLINE_REPLICAS, GUYLINE_LEDGER_TTL or the limits have changed.\n" +
			"It ends with exit code 3 if it leaves something that only a person can repair; `guyline doctor` tells more.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.open(cmd.Context(), setsUp)
			if err != nil {
				return err
			}
			defer s.Close()
			left, err := a.unrepaired(cmd.Context(), s)
			if err != nil {
				return err
			}
			streams := append(stream.Names(), dlq.Stream, audit.Stream, proof.Stream)
			if a.json {
				err = a.printJSON(map[string]any{"streams": streams, "consumer": stream.Consumer, "buckets": keyvalue.Buckets(), "replicas": a.cfg.Replicas})
			} else {
				t := newTable(a.stdout)
				for _, name := range append(streams, keyvalue.Buckets()...) {
					t.row(name, "ready")
				}
				err = t.flush()
			}
			if err != nil || len(left) == 0 {
				return err
			}
			for _, f := range left {
				a.say("%s", f)
			}
			return errPerson
		},
	}
	cmd.Flags().BoolVar(&a.forget, "yes", false, "do not ask before the ledger forgets settled reports that are older than GUYLINE_LEDGER_TTL")
	return cmd
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
