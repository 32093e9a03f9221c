package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
)

func (a *app) auditKeygenCommand() *cobra.Command {
	var name, out string
	cmd := &cobra.Command{
		Use:   "keygen --out FILE",
		Short: "Make a key that signs checkpoints",
		Long: "Make a key that signs checkpoints. The private key goes to FILE, the public one to standard output. Whoever holds the\n" +
			"private key can sign any trail, so it belongs to who answers for the trail, and not onto machines that run workers.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usageError{errors.New("keygen needs --out: the file for the private key")}
			}
			private, public, err := proof.NewKey(name)
			if err != nil {
				return usageError{err}
			}
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return usageError{fmt.Errorf("%s exists, and a key is never overwritten: name another file", out)}
			}
			if err == nil {
				_, err = f.WriteString(private + "\n")
				err = errors.Join(err, f.Sync(), f.Close())
			}
			if err != nil {
				return fmt.Errorf("write the private key: %w", err)
			}
			a.say("the private key is in %s; the public key, for --pubkey, is", out)
			if a.json {
				return a.printJSON(map[string]string{"public_key": public, "private_key_file": out})
			}
			_, err = fmt.Fprintln(a.stdout, public)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "guyline", "of the key, in each signature; without spaces and plus signs")
	cmd.Flags().StringVar(&out, "out", "", "`FILE` for the private key; required")
	return cmd
}

// syncAge is the time after which a write has reached the disk. Another process's store, like a server, may sync only every two minutes.
func (a *app) syncAge(s *session) time.Duration {
	if s.store != nil && !s.store.Remote() && a.cfg.Sync == "always" {
		return 0
	}
	return 150 * time.Second
}

func (a *app) auditCheckpointCommand() *cobra.Command {
	var (
		keyFile, out string
		giveUp       []string
		olderThan    time.Duration
		pub          pubkeys
	)
	cmd := &cobra.Command{
		Use:   "checkpoint --key FILE [--out FILE] [--give-up SHA256]...",
		Short: "Verify everything, then sign a checkpoint of the trail and the results",
		Long: "Verify everything, then sign a checkpoint of the trail and the results. It is printed, kept in the store, and with --out also in\n" +
			"a file, which must be an earlier checkpoint of the same trail. Keep it where nobody who can write to the store can: see\n" +
			"docs/audit.md. Nothing is signed if something does not fit: exit code 3. After `guyline audit restart` has said why, --give-up\n" +
			"gives up a checkpoint that no longer fits; the new one says so under its signature.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if olderThan < 0 {
				return usageError{errors.New("--older-than is below 0: it is an age, like 2m30s")}
			}
			key, err := a.readKey(keyFile)
			if err != nil {
				return err
			}
			keys, err := pub.read()
			if err != nil {
				return err
			}
			for _, sum := range giveUp {
				if !proof.IsNoteSum(sum) {
					return usageError{errors.New("--give-up takes the SHA-256 of a checkpoint, 64 hex digits, as `guyline audit restart` prints it")}
				}
			}
			var file []byte
			if _, err := os.Stat(out); out != "" && !errors.Is(err, fs.ErrNotExist) {
				if file, err = readNote(out); err != nil {
					return err
				}
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			defer s.Close()
			if !cmd.Flags().Changed("older-than") {
				olderThan = a.syncAge(s)
			}
			signed, seen, err := s.proof().Sign(cmd.Context(), key, keys, file, giveUp, olderThan)
			switch {
			case errors.Is(err, proof.ErrGiveUp):
				return usageError{err}
			case errors.Is(err, proof.ErrFindings):
				return a.refused(seen)
			case errors.Is(err, proof.ErrNothing) && seen.Events+seen.Results > 0:
				return fmt.Errorf("%w: all of it is younger than %v (--older-than)", err, olderThan)
			case errors.Is(err, proof.ErrRace):
				return fmt.Errorf("%w: run it again", err)
			case err != nil:
				return hintCheckpoints(err)
			}
			if out != "" {
				if err := replaceFile(out, signed.Note); err != nil {
					return fmt.Errorf("the checkpoint is in the store, but not in %s: %w; run it again", out, err)
				}
			}
			return a.printSigned(signed, key, out, olderThan)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "`FILE` with the private key; required")
	cmd.Flags().StringVar(&out, "out", "", "`FILE` that keeps the newest checkpoint")
	cmd.Flags().StringArrayVar(&giveUp, "give-up", nil, "`SHA256` of a checkpoint that no longer fits and is given up; repeatable")
	cmd.Flags().DurationVar(&olderThan, "older-than", 0,
		"leave younger events out, as a power failure could still take them back (default 0 for an own store with GUYLINE_SYNC=always, else 2m30s)")
	pub.register(cmd, "of other signers whose checkpoints count")
	return cmd
}

func (a *app) readKey(name string) (proof.Key, error) {
	if name == "" {
		return proof.Key{}, usageError{errors.New("say which key signs with --key FILE (`guyline audit keygen` makes one)")}
	}
	if strings.HasPrefix(strings.TrimSpace(name), "PRIVATE+KEY+") { // which no message may repeat
		return proof.Key{}, usageError{errors.New("--key takes the name of the file with the private key, not the key: others can read command lines. Take a new key if they could")}
	}
	text, err := readBounded(name, proof.MaxKey)
	if err != nil {
		return proof.Key{}, usageError{fmt.Errorf("read the private key: %w", err)}
	}
	if fi, err := os.Stat(name); err == nil && fi.Mode().Perm()&0o077 != 0 {
		a.log.Warn("others can read the private key: chmod 600", "file", name, "mode", fi.Mode().Perm().String())
	}
	key, err := proof.ParseKey(string(text))
	if err != nil {
		return key, usageError{fmt.Errorf("--key %s: %w", name, err)}
	}
	return key, nil
}

func (a *app) refused(seen proof.Report) error {
	if a.json {
		if err := a.printJSON(seen); err != nil {
			return err
		}
	} else {
		a.printFindings(a.stderr, seen)
	}
	a.say("guyline: nothing is signed: something does not fit. `guyline audit verify` shows it all. Find out why first; only if it was a " +
		"restore from a backup, `guyline audit restart` records that, and says how the checkpoints that no longer fit are given up")
	return errPerson
}

func (a *app) printSigned(signed proof.Signed, key proof.Key, out string, age time.Duration) error {
	if a.json {
		return a.printJSON(struct {
			proof.Checkpoint
			SignedBy string `json:"signed_by"`
			Sequence uint64 `json:"sequence"`
			Young    int64  `json:"events_left_out"`
			Note     string `json:"note"`
		}{signed.Checkpoint, key.ID(), signed.Sequence, signed.Young, string(signed.Note)})
	}
	a.say("signed by %s: %s events and %s results as of %s", key.ID(), humanize.Comma(signed.Events), humanize.Comma(signed.Results),
		signed.Time.Format(time.RFC3339))
	for _, sum := range signed.GivesUp {
		a.say("given up: the checkpoint %s", sum)
	}
	if signed.Young > 0 {
		a.say("%s events are younger than %v and left to the next checkpoint", humanize.Comma(signed.Young), age)
	}
	if out == "" {
		a.say("keep what follows where nobody who can write to the store can")
	}
	_, err := a.stdout.Write(signed.Note)
	return err
}

func (a *app) auditRestartCommand() *cobra.Command {
	var (
		reason, file string
		pub          pubkeys
	)
	cmd := &cobra.Command{
		Use:   "restart --reason R",
		Short: "Record why the checkpoints that no longer fit are given up, after a restore from a backup",
		Long: "Record why the checkpoints that no longer fit are given up, after a restore from a backup. It stays in the trail for good, with\n" +
			"the newest of them. By itself it gives nothing up, as others too can write to the trail: it prints the `audit checkpoint` by which\n" +
			"who holds the key does. Then `audit verify` lists them as given up; a checkpoint file among them still does not fit.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if report.Clean(reason) == "" {
				return usageError{errors.New("restart needs a --reason: it stays in the audit trail for good")}
			}
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
			e, err := s.proof().Restart(cmd.Context(), keys, note, a.actor, reason)
			if err != nil {
				return hintCheckpoints(err)
			}
			if a.json {
				return a.printJSON(e)
			}
			fmt.Fprintf(a.stdout, "recorded, by %s because %s; checkpoints that no longer fit: %d\n", e.Actor, e.Reason, len(e.GivenUp))
			if c, _, err := proof.Open([]byte(e.Checkpoint), nil); err == nil {
				fmt.Fprintf(a.stdout, "the newest is of %s: %s events and %s results\n", c.Time.Format(time.RFC3339), humanize.Comma(c.Events), humanize.Comma(c.Results))
			}
			a.say("they are findings until who holds the key gives them up:")
			var line strings.Builder
			line.WriteString("guyline audit checkpoint --key FILE")
			if file != "" {
				line.WriteString(" --out " + report.Line(file, maxLine))
			}
			for _, sum := range e.GivenUp {
				line.WriteString(" --give-up " + sum)
			}
			fmt.Fprintln(a.stdout, line.String())
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; required")
	cmd.Flags().StringVar(&file, "since-checkpoint", "", "`FILE` of a checkpoint that is to be given up too")
	pub.register(cmd, "a checkpoint that none of them signed is to be given up")
	return cmd
}

// readBounded reads a small file.
func readBounded(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// replaceFile writes a file so that at any moment it is whole: the old one or the new one.
func replaceFile(name string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// hintCheckpoints says what to do when the checkpoints' stream is missing, or a given file is no checkpoint.
func hintCheckpoints(err error) error {
	if errors.Is(err, proof.ErrNote) {
		return usageError{err}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w: `guyline setup` makes what is missing", err)
	}
	return err
}
