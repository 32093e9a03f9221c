package proof

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// MaxNote is the most that a checkpoint's note may have, in bytes. Ours have about 400, and 74 for each checkpoint that they give
// up; others may sign too.
const MaxNote = 256 << 10

var (
	// ErrNote says that something is not a checkpoint of a trail.
	ErrNote = errors.New("not a checkpoint")
	// ErrSignature says that a checkpoint has no good signature by a known key.
	ErrSignature = errors.New("not signed by a known key")
)

// Checkpoint is what a signature covers: the trail and the ledger at one moment.
type Checkpoint struct {
	Origin     string    `json:"origin"`
	Events     int64     `json:"events"` // the first so many of the trail
	Root       tlog.Hash `json:"root"`
	Results    int64     `json:"results"`  // done entries of the ledger
	Revision   uint64    `json:"revision"` // as it was then
	LedgerRoot tlog.Hash `json:"ledger_root"`
	Time       time.Time `json:"time"`               // by the server's clock, whole seconds
	GivesUp    []string  `json:"gives_up,omitempty"` // earlier checkpoints that need not fit, each by the SHA-256 of its note
}

const originPrefix = "guyline/" + audit.Stream + "/"

// originOf names the trail: its stream and when that was made.
func originOf(created time.Time) string { return originPrefix + created.UTC().Format(time.RFC3339Nano) }

const givesUp = "gives-up "

func (c Checkpoint) text() string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s\n%d\n%s\nledger %d %d %s\ntime %s\n",
		c.Origin, c.Events, c.Root, c.Results, c.Revision, c.LedgerRoot, c.Time.UTC().Format(time.RFC3339)))
	for _, sum := range c.GivesUp {
		text.WriteString(givesUp + sum + "\n")
	}
	return text.String()
}

// parseText accepts exactly what text writes: there is one way to say a thing, so nothing can hide in another.
func parseText(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 6 {
		return c, fmt.Errorf("%w: it has %d lines of text, not 5 or more", ErrNote, len(lines)-1)
	}
	ledger, at := strings.Split(lines[3], " "), strings.TrimPrefix(lines[4], "time ")
	if len(ledger) != 4 {
		return c, fmt.Errorf("%w: its line about the ledger has not four words", ErrNote)
	}
	var errs [6]error
	c.Origin = lines[0]
	c.Events, errs[0] = strconv.ParseInt(lines[1], 10, 64)
	c.Root, errs[1] = tlog.ParseHash(lines[2])
	c.Results, errs[2] = strconv.ParseInt(ledger[1], 10, 64)
	c.Revision, errs[3] = strconv.ParseUint(ledger[2], 10, 64)
	c.LedgerRoot, errs[4] = tlog.ParseHash(ledger[3])
	c.Time, errs[5] = time.Parse(time.RFC3339, at)
	if err := errors.Join(errs[:]...); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrNote, err)
	}
	for _, line := range lines[5 : len(lines)-1] {
		sum := strings.TrimPrefix(line, givesUp)
		if !IsNoteSum(sum) {
			return Checkpoint{}, fmt.Errorf("%w: a line of its text is none of a checkpoint", ErrNote)
		}
		c.GivesUp = append(c.GivesUp, sum)
	}
	created, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(c.Origin, originPrefix))
	if err != nil || c.Origin != originOf(created) || c.Events < 0 || c.Results < 0 || c.text() != text {
		return Checkpoint{}, fmt.Errorf("%w: its text is not as a checkpoint of %s is written", ErrNote, audit.Stream)
	}
	return c, nil
}

// IsNoteSum reports whether a text can name a checkpoint: the SHA-256 of its note, 64 hex digits.
func IsNoteSum(s string) bool {
	_, ok := parseRaw(report.Key(s))
	return ok
}

// sign writes the checkpoint as a note.
func (c Checkpoint) sign(key Key) ([]byte, error) {
	text, err := note.Sign(&note.Note{Text: c.text()}, key.signer)
	if err == nil && len(text) > MaxNote {
		return nil, fmt.Errorf("%w: it gives up %d, which makes a note of more than %d bytes: give up some, then the others", ErrGiveUp, len(c.GivesUp), MaxNote)
	}
	return text, err
}

// Open reads a note and checks its signatures; signers are the known keys that signed. Its errors are [ErrNote], and [ErrSignature]
// with which the checkpoint is returned all the same. Without keys no signature is checked, and there are no signers.
func Open(text []byte, keys Keys) (c Checkpoint, signers []string, err error) {
	if len(text) > MaxNote {
		return c, nil, fmt.Errorf("%w: it has more than %d bytes", ErrNote, MaxNote)
	}
	// First as if no key were known: a bad signature must not keep us from reading the text.
	_, err = note.Open(text, nil)
	unverified, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok {
		return c, nil, fmt.Errorf("%w: %w", ErrNote, err)
	}
	if c, err = parseText(unverified.Note.Text); err != nil || len(keys) == 0 {
		return c, nil, err
	}
	signed, err := note.Open(text, note.VerifierList(keys...))
	if err != nil {
		return c, nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	for _, s := range signed.Sigs {
		signers = append(signers, keyID(s.Name, s.Hash))
	}
	return c, signers, nil
}
