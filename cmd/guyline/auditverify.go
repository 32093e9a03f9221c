package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
)

func (a *app) auditVerifyCommand() *cobra.Command {
	var (
		file string
		pub  pubkeys
	)
	cmd := &cobra.Command{
		Use:   "verify [--pubkey KEY|FILE]... [--since-checkpoint FILE]",
		Short: "Recompute the trail, the letters and the results, and hold them against every checkpoint",
		Long: "Recompute the trail, the letters and the results, and hold them against every checkpoint. What was edited, removed, moved or cut\n" +
			"off is named: exit code 3. Without a key, signatures are not checked; what that leaves unproved is said.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := pub.read()
			if err != nil {
				return err
			}
			note, err := readNote(file)
			if err != nil {
				return err
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			seen, err := s.proof().Verify(cmd.Context(), keys, note)
			if err != nil {
				return hintCheckpoints(err)
			}
			if a.json {
				err = a.printJSON(seen)
			} else {
				err = a.printVerified(seen, len(keys) > 0)
			}
			if err == nil && !seen.Sound() {
				return errPerson
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "since-checkpoint", "", "`FILE` of an earlier checkpoint, kept elsewhere, that must still fit")
	pub.register(cmd, "each checkpoint must be signed by one")
	return cmd
}

func (a *app) printFindings(w io.Writer, seen proof.Report) {
	for _, f := range seen.Findings {
		fmt.Fprintln(w, report.Line(f.String(), 1024))
	}
	if seen.Unlisted > 0 {
		fmt.Fprintf(w, "and %s more\n", humanize.Comma(int64(seen.Unlisted)))
	}
}

func (a *app) printVerified(seen proof.Report, keys bool) error {
	a.printFindings(a.stdout, seen)
	for _, g := range seen.GivenUp {
		of := ""
		if !g.Time.IsZero() {
			of = " of " + g.Time.Format(time.RFC3339)
		}
		why := "; no restart in the trail says why"
		if !g.At.IsZero() {
			why = fmt.Sprintf(", by %s at %s because %s", g.Actor, g.At.Format(time.RFC3339), g.Reason)
		}
		fmt.Fprintln(a.stdout, report.Line(fmt.Sprintf("checkpoint %d%s does not fit, and was given up under a signature%s", g.Sequence, of, why), 2048))
	}
	t := newTable(a.stdout)
	t.row("events", humanize.Comma(seen.Events))
	t.row("results", humanize.Comma(seen.Results))
	t.row("letters", humanize.Comma(seen.Letters)+" as the trail recorded them")
	t.row("checkpoints", humanize.Comma(int64(seen.Fit))+" fit")
	if fits := seen.FileFits; fits != nil {
		t.row("given file", map[bool]string{true: "fits", false: "does not fit"}[*fits])
	}
	if n := seen.Newest; n != nil {
		by := "signatures not checked"
		if len(seen.SignedBy) > 0 {
			by = "signed by " + strings.Join(seen.SignedBy, ", ")
		}
		t.row("newest", fmt.Sprintf("of %s, %s", n.Time.Format(time.RFC3339), by))
	}
	total := len(seen.Findings) + seen.Unlisted
	t.row("findings", humanize.Comma(int64(total)))
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.stdout, meaning(seen, keys))
	return err
}

// meaning says what the verification proves and what it does not.
func meaning(seen proof.Report, keys bool) string {
	n := seen.Newest
	switch {
	case !seen.Sound():
		return "Something is not as it was written or signed."
	case n == nil:
		return "Everything fits together. No checkpoint says so: whoever can write to the store could have rewritten all of it."
	case keys:
		return fmt.Sprintf("The first %s events and the %s results of %s are what was signed then. The rest fits together, and is proved by the next checkpoint.",
			humanize.Comma(n.Events), humanize.Comma(n.Results), n.Time.Format(time.RFC3339))
	case seen.FileFits != nil:
		return "Everything fits together, and fits the given file. That proves as much as the place where the file was kept; with --pubkey its signature is checked too."
	}
	return "Everything fits together and fits the checkpoints beside it. That proves little: whoever can write to the store could have replaced both. " +
		"Give --pubkey, or --since-checkpoint with a file that was kept elsewhere."
}
