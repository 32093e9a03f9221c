package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := group("audit", "The audit trail, and its proof")
	cmd.AddCommand(
		a.auditLogCommand(), a.auditVerifyCommand(), a.auditKeygenCommand(), a.auditCheckpointCommand(), a.auditRestartCommand(),
		a.auditProveCommand(), a.auditCheckCommand(),
	)
	return cmd
}

func (a *app) auditLogCommand() *cobra.Command {
	return &cobra.Command{
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
			var garbled error // the first of what is not an event; it cannot be removed, and the others are shown all the same
			for e, err := range s.trail.Log(cmd.Context(), site, key) {
				if errors.Is(err, audit.ErrUnreadable) {
					garbled = cmp.Or(garbled, err)
					continue
				}
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
			case n == 0 && len(args) > 0 && garbled == nil:
				return errors.New("the trail has no event of this report: it succeeded at once, or was never handed over (`guyline show` tells)")
			case a.json || n == 0:
				return garbled
			}
			return errors.Join(t.flush(), garbled)
		},
	}
}

// pubkeys is the flag --pubkey: public keys, or files of them.
type pubkeys []string

func (p *pubkeys) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringArrayVar((*[]string)(p), "pubkey", nil, "public `KEY or FILE` of keys, one a line; repeatable; "+what)
}

func (p pubkeys) read() (keys proof.Keys, err error) {
	for _, given := range p {
		if strings.HasPrefix(strings.TrimSpace(given), "PRIVATE+KEY+") {
			return nil, usageError{errors.New("--pubkey was given a private key, which must not leave its holder: give the public one")}
		}
		more, err := proof.ParseKeys(given)
		if text, missing := readBounded(given, proof.MaxKey); err != nil && missing == nil {
			more, err = proof.ParseKeys(string(text))
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("--pubkey %s: neither a public key nor a file of them: %w", report.Line(given, 20), err)}
		}
		keys = keys.With(more...)
	}
	return keys, nil
}

// readNote reads a checkpoint that was kept in a file; nil without a name.
func readNote(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readBounded(name, proof.MaxNote+1)
	if err != nil {
		return nil, usageError{fmt.Errorf("read the checkpoint: %w", err)}
	}
	return text, nil
}
