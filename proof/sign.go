package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

var (
	// ErrFindings says that something does not fit, so that nothing was signed; the report says what.
	ErrFindings = errors.New("nothing is signed")
	// ErrGiveUp says that a checkpoint cannot be given up: there is none of this name that does not fit, or no restart says why.
	ErrGiveUp = errors.New("cannot be given up")
	// ErrForgets says that the ledger has an age limit: of what it has forgotten a checkpoint would prove that it never landed.
	ErrForgets = errors.New("the ledger forgets results")
	// ErrNothing says that there is no event and no result yet.
	ErrNothing = errors.New("there is nothing to sign yet")
)

// Signed is a checkpoint that was made.
type Signed struct {
	Checkpoint
	Note     []byte
	Sequence uint64 // in REPORTS_CHECKPOINTS
	Young    int64  // events that are left to the next one
}

// Sign verifies everything as [Log.Verify] does, signs a checkpoint of it and appends that to the stream. The key's own signatures
// count besides those of keys. What is younger than age by the server's clock is left out: it should be no less than the time
// after which a write has reached the disk, as nothing must be signed that a power failure could still take back.
//
// The new checkpoint extends the file (the note of an earlier one; nil if there is none) and every one of the stream. Those that do not
// fit must be given up one by one: giveUp names them by the SHA-256 of their notes, and the new checkpoint says so under its signature.
// A restart must have recorded why, but by itself it gives nothing up, as whoever may write to the trail could have written it.
//
// [ErrForgets]: the ledger has an age limit. [ErrFindings]: something does not fit, see the report. [ErrGiveUp], [ErrNote]: giveUp or the file is wrong. [ErrRace]: somebody else
// signed in the same moment.
func (l *Log) Sign(ctx context.Context, key Key, keys Keys, file []byte, giveUp []string, age time.Duration) (Signed, Report, error) {
	if err := isNote(file); err != nil {
		return Signed{}, Report{}, err
	}
	leaves, err := l.last(ctx, leavesSubject)
	if err != nil {
		return Signed{}, Report{}, err
	}
	s, err := l.read(ctx, file, age, true)
	if err != nil {
		return Signed{}, Report{}, err
	}
	if kept := s.book.kept; kept > 0 {
		return Signed{}, Report{}, fmt.Errorf("%w after %v: a checkpoint would prove of those that they never landed", ErrForgets, kept)
	}
	all := s.judge(keys.With(key.Public()))
	if err := forgive(all, giveUp); err != nil {
		return Signed{}, Report{}, err
	}
	if i := len(all) - 1; file != nil && !all[i].fits() && all[i].forgiven {
		all = all[:i] // given up, so there is nothing for the new one to extend
	}
	if err := s.verify(ctx, all); err != nil {
		return Signed{}, s.report, err
	}
	if !s.report.Sound() {
		return Signed{}, s.report, ErrFindings
	}
	out := Signed{Checkpoint: s.checkpoint(all)}
	out.GivesUp = giveUp
	out.Young = s.tree.size - out.Events
	if out.Events == 0 && out.Results == 0 {
		return Signed{}, s.report, ErrNothing
	}
	if out.Note, err = out.sign(key); err != nil {
		return Signed{}, s.report, fmt.Errorf("sign the checkpoint: %w", err)
	}
	if n := out.Events - s.first; n > 0 { // else a checkpoint that covers more was given up, and they are stored already
		if err := l.appendLeaves(ctx, s.first, s.leaves[:n], leaves); err != nil {
			return Signed{}, s.report, err
		}
	}
	var last uint64
	if len(s.notes) > 0 {
		last = s.notes[len(s.notes)-1].sequence
	}
	out.Sequence, err = l.append(ctx, &nats.Msg{Subject: noteSubject, Data: out.Note}, last)
	return out, s.report, err
}

// forgive marks the checkpoints that who holds the key gives up.
func forgive(all []judged, giveUp []string) error {
	for i, sum := range giveUp {
		found := slices.Index(giveUp[:i], sum) >= 0
		if found {
			return fmt.Errorf("%.12s: %w: it is named twice", sum, ErrGiveUp)
		}
		for j := range all {
			if all[j].sum() != sum || all[j].fits() {
				continue
			}
			if all[j].restart == nil {
				return fmt.Errorf("%.12s: %w: no restart says why: `guyline audit restart --reason` does", sum, ErrGiveUp)
			}
			all[j].forgiven, found = true, true
		}
		if !found {
			return fmt.Errorf("%.12s: %w: no checkpoint of this SHA-256 is there that does not fit", sum, ErrGiveUp)
		}
	}
	return nil
}

// isNote refuses a file that is no checkpoint at all.
func isNote(file []byte) error {
	if file == nil {
		return nil
	}
	if _, _, err := Open(file, nil); err != nil {
		return fmt.Errorf("the given file: %w", err)
	}
	return nil
}

// checkpoint is what there is to sign: all that is old enough, and no less than what was signed before.
func (s *survey) checkpoint(all []judged) Checkpoint {
	c := Checkpoint{Origin: s.origin, Events: s.ripe, Revision: s.book.ripe, Time: s.now.UTC().Truncate(time.Second)}
	c.Root = s.ripeRoot
	for _, j := range all {
		if j.fits() && j.Events > c.Events {
			c.Events, c.Root = j.Events, j.Root
		}
		if j.fits() {
			c.Revision = max(c.Revision, j.Revision)
		}
	}
	c.Results, c.LedgerRoot = s.book.at(c.Revision)
	return c
}
