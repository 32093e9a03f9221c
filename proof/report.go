package proof

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/report"
)

// Where a finding is.
const (
	InTrail       = "event"      // Sequence is the event's
	InLetters     = "letter"     // Sequence is the letter's
	InLedger      = "ledger"     // Sequence is the entry's revision
	InCheckpoints = "checkpoint" // Sequence is the one in REPORTS_CHECKPOINTS, 0 for the file
)

// Finding is something that is not as it was written or signed.
type Finding struct {
	What     string     `json:"what"`
	Sequence uint64     `json:"sequence,omitempty"`
	Key      report.Key `json:"key,omitempty"`
	Problem  string     `json:"problem"`
	Note     string     `json:"note_sha256,omitempty"` // of a checkpoint: the SHA-256 of its note, by which it can be given up
}

func (f Finding) String() string {
	where := f.What
	if f.Sequence > 0 {
		where = fmt.Sprintf("%s %d", f.What, f.Sequence)
	}
	if f.Key != "" {
		where += " (" + f.Key.Short() + ")"
	}
	return where + ": " + f.Problem
}

// MaxFindings is how many findings a report lists; the rest is only counted.
const MaxFindings = 1000

// Report is what a verification has seen.
type Report struct {
	Time    time.Time `json:"time"` // by the server's clock
	Origin  string    `json:"origin"`
	Events  int64     `json:"events"`
	Root    tlog.Hash `json:"root"`
	Results int64     `json:"results"` // in the ledger
	Letters int64     `json:"letters"` // that are as the trail recorded them, or on their way

	Fit      int         `json:"checkpoints_fit"`     // of the stream
	FileFits *bool       `json:"file_fits,omitempty"` // if there is one
	Newest   *Checkpoint `json:"newest_checkpoint,omitempty"`
	SignedBy []string    `json:"signed_by,omitempty"` // the newest that fits; without keys nothing is known
	GivenUp  []GivenUp   `json:"given_up,omitempty"`

	Findings []Finding `json:"findings"`
	Unlisted int       `json:"findings_unlisted,omitempty"`
}

// GivenUp is a checkpoint that does not fit, which a signed one gives up. Actor, Reason and At are of the restart that says why, and
// empty if the trail has it no more: anybody who may write to the trail can have written them, only the giving up is signed.
type GivenUp struct {
	Sequence uint64    `json:"sequence"`
	Note     string    `json:"note_sha256"`
	Time     time.Time `json:"time,omitzero"` // of the checkpoint
	Problem  string    `json:"problem"`
	Actor    string    `json:"actor,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

// Sound reports whether nothing was found.
func (r Report) Sound() bool { return len(r.Findings) == 0 }

func (s *survey) found(f Finding) {
	if len(s.report.Findings) == MaxFindings {
		s.report.Unlisted++
		return
	}
	s.report.Findings = append(s.report.Findings, f)
}
