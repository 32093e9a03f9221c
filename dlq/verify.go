package dlq

import (
	"context"
	"errors"
	"iter"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Finding is one letter and what is wrong with it; an empty Problem says that nothing is.
type Finding struct {
	Letter  Letter
	Problem string
}

// Verify checks every letter that exists when it begins: that the audit hash fits key and reason, that the
// payload is the one that the key names, and that the audit trail has recorded this very death. A letter whose burial is
// still going on has no event yet and is sound.
func (q *Queue) Verify(ctx context.Context) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		deaths := map[death]string{} // the newest hash
		for e, err := range q.trail.All(ctx) {
			if err != nil {
				yield(Finding{}, err)
				return
			}
			if e.Kind == audit.Death {
				deaths[deathOf(e)] = e.Hash
			}
		}
		for l, err := range q.Export(ctx, Filter{}) {
			var problem string
			if err == nil {
				problem, err = q.check(ctx, l, deaths[deathOf(Death(l))])
			}
			if !yield(Finding{l, problem}, err) || err != nil {
				return
			}
		}
	}
}

type death struct {
	key    report.Key
	source stream.Ref
}

func deathOf(e audit.Event) death {
	return death{e.Key, stream.Ref{Stream: e.Stream, Sequence: e.Sequence}}
}

func (q *Queue) check(ctx context.Context, l Letter, recorded string) (string, error) {
	if l.Hash != report.AuditHash(l.Key, l.Reason) {
		return "the audit hash does not fit the reason", nil
	}
	if m := stream.Read(stream.Ref{}, "", nil, l.Body, l.PublishedAt); m.Key != l.Key || m.Site != l.Site {
		return "the payload is another report's", nil
	}
	if recorded == l.Hash {
		return "", nil
	}
	if moving, err := q.moving(ctx, l); moving || err != nil {
		return "", err
	}
	if recorded != "" {
		return "the audit trail has recorded another reason for this death", nil
	}
	return "the audit trail has not recorded this death", nil
}

// moving reports whether the letter is younger than what Verify has read: its burial is going on, or has ended since.
func (q *Queue) moving(ctx context.Context, l Letter) (bool, error) {
	if left, err := q.unburied(ctx, l); len(left) > 0 || err != nil {
		return true, err
	}
	if _, err := q.At(ctx, l.Sequence); err != nil {
		return errors.Is(err, ErrNotFound), ignore(err, ErrNotFound)
	}
	for e, err := range q.trail.Log(ctx, l.Site, l.Key) {
		if err != nil {
			return false, err
		}
		if e.Kind == audit.Death && deathOf(e) == deathOf(Death(l)) && e.Hash == l.Hash {
			return true, nil
		}
	}
	return false, nil
}
