package proof

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// judged is a checkpoint and how it stands to what the server holds now.
type judged struct {
	stored
	Checkpoint
	signers []string
	unknown bool     // it cannot be read, or no known key signed it
	trail   bool     // its events fit
	misfits []string // all that does not fit

	restart  *audit.Event // that says why it is given up; anybody can have written it
	forgiven bool         // a signed checkpoint gives it up
}

func (j judged) fits() bool { return len(j.misfits) == 0 }

func (j judged) problem() string { return strings.Join(j.misfits, "; ") }

func (j judged) sum() string { return report.PayloadHash(j.note) }

// judge holds every checkpoint against the trail and the ledger. What a signed one gives up stays given up, also if it does not fit itself.
func (s *survey) judge(keys Keys) (all []judged) {
	givenUp := map[string]*audit.Event{}
	for i, e := range s.restarts {
		for _, sum := range e.GivenUp {
			givenUp[sum] = &s.restarts[i]
		}
	}
	forgiven := map[string]bool{}
	ledgers := map[uint64]Checkpoint{}
	var before *Checkpoint // the one before it in the stream that fits
	for _, n := range s.all() {
		j := judged{stored: n, restart: givenUp[report.PayloadHash(n.note)]}
		var err error
		switch j.Checkpoint, j.signers, err = Open(n.note, keys); {
		case errors.Is(err, ErrSignature):
			j.unknown, j.misfits = true, []string{"it is not signed by a given key, or was changed since"}
		case err != nil:
			j.unknown, j.misfits = true, []string{"it is not a checkpoint of this trail"}
		default:
			for _, sum := range j.GivesUp {
				forgiven[sum] = true
			}
			s.compareTrail(&j)
			s.compareLedger(&j, ledgers)
			if before != nil && n.sequence > 0 && (j.Events < before.Events || j.Revision < before.Revision) {
				j.misfits = append(j.misfits, "it covers less than the one before it")
			}
		}
		if j.fits() && n.sequence > 0 {
			before = &j.Checkpoint
		}
		all = append(all, j)
	}
	for i := range all {
		all[i].forgiven = forgiven[all[i].sum()]
	}
	return all
}

func (s *survey) compareTrail(j *judged) {
	if j.Origin != s.origin {
		j.misfits = append(j.misfits, fmt.Sprintf("it is of the trail that was made at %s, and this one was made at %s",
			strings.TrimPrefix(j.Origin, originPrefix), strings.TrimPrefix(s.origin, originPrefix)))
	}
	switch {
	case j.Events > s.tree.size:
		j.misfits = append(j.misfits, fmt.Sprintf("the trail is cut off: it has %d events, and %d were signed", s.tree.size, j.Events))
	case j.Root != s.roots[j.Events]:
		j.misfits = append(j.misfits, fmt.Sprintf("the first %d events are not the ones that were signed", j.Events))
	default:
		j.trail = true
	}
}

func (s *survey) compareLedger(j *judged, known map[uint64]Checkpoint) {
	now, ok := known[j.Revision]
	if !ok {
		now.Results, now.LedgerRoot = s.book.at(j.Revision)
		known[j.Revision] = now
	}
	switch {
	case j.Revision > s.book.last:
		j.misfits = append(j.misfits, fmt.Sprintf("the ledger is cut off: it ends at revision %d, and %d was signed", s.book.last, j.Revision))
	case s.book.kept > 0 && (j.Results != now.Results || j.LedgerRoot != now.LedgerRoot):
		j.misfits = append(j.misfits, fmt.Sprintf("the ledger forgets a result after %v: of the %d that were signed %d are left, and whether the others have only "+
			"grown old is not known", s.book.kept, j.Results, now.Results))
	case j.Results != now.Results:
		j.misfits = append(j.misfits, fmt.Sprintf("the ledger had %d results at revision %d, and %d were signed", now.Results, j.Revision, j.Results))
	case j.LedgerRoot != now.LedgerRoot:
		j.misfits = append(j.misfits, fmt.Sprintf("the ledger's results at revision %d are not the ones that were signed", j.Revision))
	}
}

// account turns the judgement into the report: what fits, what was given up, and what is a finding.
func (s *survey) account(ctx context.Context, all []judged) error {
	for _, j := range all {
		if j.sequence == 0 {
			s.report.FileFits = new(j.fits())
		}
		switch {
		case j.fits():
			if j.sequence > 0 {
				s.report.Fit++
			}
			if s.report.Newest == nil || s.report.Newest.Events <= j.Events && s.report.Newest.Revision <= j.Revision {
				s.report.Newest, s.report.SignedBy = &j.Checkpoint, j.signers
			}
		case j.forgiven && j.sequence > 0:
			g := GivenUp{Sequence: j.sequence, Note: j.sum(), Time: j.Time, Problem: j.problem()}
			if r := j.restart; r != nil {
				g.Actor, g.Reason, g.At = report.Line(r.Actor, report.MaxHeaderValue), report.Clean(r.Reason), r.Time
			}
			s.report.GivenUp = append(s.report.GivenUp, g)
		default:
			problem := j.problem()
			if j.sequence == 0 {
				problem = "the given file: " + problem
			}
			if r := j.restart; r != nil {
				signed := "but no signed checkpoint does"
				if j.forgiven {
					signed = "and so does a signed checkpoint"
				}
				problem += fmt.Sprintf(" (a restart by %s gives it up because %s, %s)", report.Line(r.Actor, 128), report.Clean(r.Reason), signed)
			}
			s.found(Finding{What: InCheckpoints, Sequence: j.sequence, Problem: problem, Note: j.sum()})
		}
	}
	return s.name(ctx, all)
}

// name says which events are not the ones that were signed, as exactly as can be told.
func (s *survey) name(ctx context.Context, all []judged) error {
	var broken []judged
	for _, j := range all {
		if !j.trail && !j.unknown && (!j.forgiven || j.sequence == 0) {
			broken = append(broken, j)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	for _, j := range slices.Backward(broken) {
		before := j.sequence
		for _, n := range s.notes { // a file that is in the stream too
			if before == 0 && bytes.Equal(n.note, j.note) {
				before = n.sequence
			}
		}
		leaves, err := s.log.leaves(ctx, j.Events, before)
		if err != nil {
			return err
		}
		if int64(len(leaves)) == j.Events && rootOf(leaves) == j.Root {
			return s.blame(ctx, base(all, j), leaves)
		}
	}
	least := slices.MinFunc(broken, func(x, y judged) int { return cmp.Compare(x.Events, y.Events) })
	s.between(base(all, least), least)
	return nil
}

// base is how many events are proved to be unchanged, by a checkpoint of the same trail that fits.
func base(all []judged, broken judged) (n int64) {
	for _, j := range all {
		if j.trail && j.Origin == broken.Origin && j.Events <= broken.Events {
			n = max(n, j.Events)
		}
	}
	return n
}

// between is all that can be said without the hashes of the events that were signed.
func (s *survey) between(base int64, least judged) {
	if from, to := base+1, min(least.Events, s.tree.size); from <= to {
		s.found(Finding{What: InTrail, Sequence: uint64(from), Problem: fmt.Sprintf(
			"in the events %d to %d something was edited, removed or put in; what exactly is not known, as the hashes of the signed events are not there", from, to)})
	}
	if least.Events > s.tree.size {
		s.found(Finding{What: InTrail, Sequence: uint64(s.tree.size + 1), Problem: fmt.Sprintf(
			"the events %d to %d are cut off", s.tree.size+1, least.Events)})
	}
}
