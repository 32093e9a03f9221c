package dlq

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// Missing yields the reports whose letter has been removed by nobody's recorded act: the newest change of their fate in the trail is
// a death, and there is neither a letter nor a requeued copy nor a settled result. It comes after [Queue.VerifyAgainst], and asks the
// leader about each report that this has not seen.
func (q *Queue) Missing(ctx context.Context, deaths *Deaths) iter.Seq2[report.Key, error] {
	return func(yield func(report.Key, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(deaths.open)) {
			missing, err := q.missing(ctx, key)
			if (missing || err != nil) && !yield(key, err) || err != nil {
				return
			}
		}
	}
}

// missing looks for the letter between two looks at the trail: whoever takes a letter away records it first, so if there is none and
// the trail still ends in the same death, nobody has.
func (q *Queue) missing(ctx context.Context, key report.Key) (bool, error) {
	before, dead, err := q.diedLast(ctx, key)
	if !dead || err != nil {
		return false, err
	}
	if _, err := q.Current(ctx, "*", key); !errors.Is(err, ErrNotFound) {
		return false, err
	}
	after, dead, err := q.diedLast(ctx, key)
	if !dead || before.ID() != after.ID() || !before.Time.Equal(after.Time) || err != nil {
		return false, err // in motion
	}
	if _, err := q.queues.Copy(ctx, "*", key); !errors.Is(err, jsapi.ErrNotFound) {
		return false, err
	}
	switch e, err := q.ledger.LookupLeader(ctx, "*", key); {
	case errors.Is(err, keyvalue.ErrNotFound), errors.Is(err, keyvalue.ErrUnreadable):
		return true, nil
	default:
		return e.State != keyvalue.Done, err
	}
}

// diedLast reports whether the newest change of a report's fate leaves a letter there. What is no event takes none away.
func (q *Queue) diedLast(ctx context.Context, key report.Key) (audit.Event, bool, error) {
	switch last, err := q.trail.LastChange(ctx, "*", key); {
	case errors.Is(err, audit.ErrUnreadable):
		return audit.Event{}, true, nil
	case errors.Is(err, audit.ErrNotFound): // the death that was read lies under another name, which is a finding of its own
		return audit.Event{}, false, nil
	default:
		return last, last.Kind == audit.Death || last.Kind == audit.Quarantine, err
	}
}
