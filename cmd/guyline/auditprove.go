package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
)

func (a *app) auditProveCommand() *cobra.Command {
	var pub pubkeys
	cmd := &cobra.Command{
		Use:   "prove {SITE URI | KEY}",
		Short: "Print a proof of one report's story that can be checked without any server",
		Long: "Print a proof of one report's story that can be checked without any server, by `guyline audit check`: its events, its result or that\n" +
			"it has none, and the newest checkpoint that covers them.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, key, err := reportOf(args)
			if err != nil {
				return err
			}
			var event report.Event
			if len(args) == 2 {
				event = report.Event{SiteID: args[0], SourceURI: args[1]}
			}
			keys, err := pub.read()
			if err != nil {
				return err
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			b, newer, err := s.proof().Prove(cmd.Context(), key, event, keys)
			switch {
			case errors.Is(err, proof.ErrNoCheckpoint):
				return fmt.Errorf("%w: `guyline audit checkpoint` makes one, `guyline audit verify` tells why others do not", err)
			case err != nil:
				return hintCheckpoints(err)
			}
			if newer.Events > 0 || newer.Entry {
				a.say("not in the proof: %d events%s that are newer than the checkpoint; make a checkpoint, then prove again",
					newer.Events, map[bool]string{true: " and a change of the result"}[newer.Entry])
			}
			return a.printJSON(b)
		},
	}
	pub.register(cmd, "the checkpoint must be signed by one")
	return cmd
}

func (a *app) auditCheckCommand() *cobra.Command {
	var pub pubkeys
	cmd := &cobra.Command{
		Use:   "check FILE --pubkey KEY|FILE...",
		Short: "Verify a proof without any server, and say in plain words what it proves",
		Long:  "Verify a proof, as `guyline audit prove` printed it (- is standard input), without any server, and say in plain words what it\nproves. If anything in it was changed: exit code 3.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(pub) == 0 {
				return usageError{errors.New("say whose signature counts with --pubkey KEY or FILE: a proof without that proves nothing")}
			}
			keys, err := pub.read()
			if err != nil {
				return err
			}
			var in io.Reader = interruptible(cmd.Context(), a.stdin)
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usageError{fmt.Errorf("read the proof: %w", err)}
				}
				defer f.Close()
				in = f
			}
			b, err := proof.Read(in)
			var answer proof.Answer
			if err == nil {
				answer, err = proof.Check(b, keys)
			}
			switch {
			case err != nil:
				return exitError{err, exitPerson}
			case a.json:
				return a.printJSON(answer)
			}
			for _, line := range story(answer) {
				if _, err := fmt.Fprintln(a.stdout, report.Line(line, maxLine)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	pub.register(cmd, "the proof must be signed by one")
	return cmd
}

// story tells in sentences what a proof proves.
func story(p proof.Answer) (lines []string) {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	name := fmt.Sprintf("Report %s of site %s (key %s)", report.RedactSource(p.SourceURI), p.SiteID, p.Key.Short())
	if p.SourceURI == "" {
		name = fmt.Sprintf("Report %s", p.Key)
	}
	if e := p.Entry; e != nil {
		lines = append(lines, fmt.Sprintf("%s landed: settled at %s by %s at attempt %d, with the result %s", name, at(e.Time), e.Worker, e.Attempts, e.Result))
	} else {
		lines = append(lines, fmt.Sprintf("%s had not landed at %s: the ledger of that moment has no result of it.", name, at(p.Checkpoint.Time)))
	}
	told := map[string]bool{} // a crash can write an event twice
	for _, e := range p.Events {
		if id := e.ID() + e.Hash; !told[id] {
			told[id] = true
			lines = append(lines, fmt.Sprintf("%s  %s", at(e.Time), tell(e.Event)))
		}
	}
	if len(p.Events) == 0 {
		lines = append(lines, "The proof has no event of it: nothing failed, or its events were left out.")
	}
	return append(lines,
		fmt.Sprintf("Signed by %s at %s, over %s events and %s results of %s.", strings.Join(p.SignedBy, ", "), at(p.Checkpoint.Time),
			humanize.Comma(p.Checkpoint.Events), humanize.Comma(p.Checkpoint.Results), p.Checkpoint.Origin),
		"Proved: whether it had landed then, and each event above. Not proved: what came later, and that no event of it was left out by who made this proof.")
}

// tell is one event as a sentence.
func tell(e audit.Event) string {
	by := e.Actor
	if by == "" {
		by = e.Worker
	}
	because := ""
	if e.Reason != "" {
		because = ": " + e.Reason
	}
	switch e.Kind {
	case audit.AttemptFailed:
		return fmt.Sprintf("attempt %d failed on %s, %s%s", e.Attempt, by, e.Code, because)
	case audit.Death:
		attempts := "1 attempt"
		if e.Attempt != 1 {
			attempts = fmt.Sprintf("%d attempts", e.Attempt)
		}
		return fmt.Sprintf("it died on %s after %s, %s, %s%s", by, attempts, e.Class, e.Code, because)
	case audit.Replay:
		return fmt.Sprintf("%s sent it back to the queue%s", by, because)
	case audit.Discard:
		return fmt.Sprintf("%s gave it up%s", by, because)
	case audit.Repair:
		return fmt.Sprintf("%s gave it up for a corrected report, %s%s", by, e.NewKey.Short(), because)
	case audit.Recovered:
		return fmt.Sprintf("its dead letter was closed by %s, as it had landed", by)
	case audit.Quarantine:
		return fmt.Sprintf("it was quarantined%s", because)
	case audit.Reprocess:
		return fmt.Sprintf("%s had it worked again, though it was settled%s", by, because)
	case audit.Restart:
		return fmt.Sprintf("%s recorded that %d checkpoints no longer fit%s", by, len(e.GivenUp), because)
	}
	return fmt.Sprintf("%s by %s%s", e.Kind, by, because)
}
