package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Last reads the newest event of a report through the leader, or returns [ErrNotFound].
func (t *Trail) Last(ctx context.Context, site report.Token, key report.Key) (Event, error) {
	m, err := jsapi.Last(ctx, t.js, Stream, subject(site, key))
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return Event{}, ErrNotFound
	case err != nil:
		return Event{}, fmt.Errorf("audit trail: %w", err)
	}
	return readEvent(m)
}

// LastChange reads the newest event of a report that changed its fate, a death or an act, or returns [ErrNotFound]. A worker that
// has lost a report may still record a failed attempt after it.
func (t *Trail) LastChange(ctx context.Context, site report.Token, key report.Key) (Event, error) {
	last, err := t.Last(ctx, site, key)
	if err != nil || !last.attempt() {
		return last, err
	}
	found := false
	for e, err := range t.events(ctx, site, key) {
		if err != nil {
			return Event{}, err
		}
		if !e.attempt() {
			last, found = e.Event, true
		}
	}
	if !found {
		return Event{}, ErrNotFound
	}
	return last, nil
}

// Discarded finds the act that gave a report up, or returns [ErrNotFound]: its newest event among deaths, reprocessings, discards and
// repairs must be one of the last two. Others may come after it: a late failed attempt of a worker that had lost the report, or the record of a replay
// for which the discard was faster.
func (t *Trail) Discarded(ctx context.Context, site report.Token, key report.Key) (Event, error) {
	var last Event
	for e, err := range t.events(ctx, site, key) {
		if err != nil {
			return Event{}, err
		}
		switch e.Kind {
		case Death, Reprocess, Discard, Repair:
			last = e.Event
		}
	}
	if last.Kind != Discard && last.Kind != Repair {
		return Event{}, ErrNotFound
	}
	return last, nil
}

// FirstFailure finds when a report that was published at the given time first failed, or returns [ErrNotFound]. What belongs to an earlier
// publication is told by the server's clock: that of the worker who wrote the event may be behind it.
func (t *Trail) FirstFailure(ctx context.Context, site report.Token, key report.Key, published time.Time) (time.Time, error) {
	for e, err := range t.events(ctx, site, key) {
		if err != nil {
			return time.Time{}, err
		}
		if e.attempt() && !e.stored.Before(published) {
			return e.Time, nil
		}
	}
	return time.Time{}, ErrNotFound
}

// Failed reports whether the trail has recorded that a delivery of a message ended with a failed attempt.
func (t *Trail) Failed(ctx context.Context, site report.Token, key report.Key, stream string, sequence, delivery uint64) (bool, error) {
	for e, err := range t.events(ctx, site, key) {
		if err != nil {
			return false, err
		}
		if e.Fails(stream, sequence, delivery) {
			return true, nil
		}
	}
	return false, nil
}

// Pass is what became of a report's deliveries since it was handed over, or last replayed, repaired or reprocessed.
type Pass struct {
	Failed int      // attempts that ended with an error and were spent
	Alone  []string // workers that have tried it alone, as a suspect, in order
}

// Pass reads the report's present pass. It tells by the server's clock what belongs to an earlier publication.
func (t *Trail) Pass(ctx context.Context, site report.Token, key report.Key, published time.Time) (Pass, error) {
	var p Pass
	for e, err := range t.events(ctx, site, key) {
		switch {
		case err != nil:
			return Pass{}, err
		case !e.attempt(): // what was before belongs to another pass
			p = Pass{}
		case e.stored.Before(published):
		case e.Kind == AttemptFailed:
			p.Failed++
		case e.Kind == Suspect:
			p.Alone = append(p.Alone, e.Worker)
		}
	}
	return p, nil
}

// Died reports whether the trail has recorded the death of this very message: same place and time of publication. Of the copy that
// replays a letter (0 = none) only deaths after that act count: it keeps the time of publication, and in a requeue stream that was
// made anew it may get the place of an earlier copy.
func (t *Trail) Died(ctx context.Context, site report.Token, key report.Key, stream string, sequence uint64, published time.Time, letter uint64) (died bool, err error) {
	for e, err := range t.events(ctx, site, key) {
		switch {
		case err != nil:
			return false, err
		case e.Kind == Replay && e.Letter == letter:
			died = false
		case e.Kind == Death && e.Stream == stream && e.Sequence == sequence && e.Published.Equal(published):
			if died = true; letter == 0 {
				return true, nil
			}
		}
	}
	return died, nil
}

// entry is an event and when the server took it.
type entry struct {
	Event
	stored time.Time
}

// events yields the events of a report, also the ones that were written twice, each read through the leader.
func (t *Trail) events(ctx context.Context, site report.Token, key report.Key) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for seq := uint64(1); ; {
			m, err := jsapi.Next(ctx, t.js, Stream, subject(site, key), seq)
			if errors.Is(err, jsapi.ErrNotFound) {
				return
			}
			var e entry
			if err == nil {
				e.stored = m.Time
				e.Event, err = readEvent(m)
			} else {
				err = fmt.Errorf("audit trail: %w", err)
			}
			if !yield(e, err) || err != nil {
				return
			}
			seq = m.Sequence + 1
		}
	}
}
