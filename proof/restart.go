package proof

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// ErrFits says that every checkpoint fits, so there is none to give up.
var ErrFits = errors.New("every checkpoint fits: there is nothing to restart")

// Restart records in the trail why every checkpoint that no longer fits is to be given up, for instance after a restore from a backup:
// those of the stream, and the file (the note of one that was kept elsewhere; nil if there is none), with the notes' hashes and the
// newest note. Actor and reason are required. It gives nothing up by itself: [Log.Sign] does, for who holds the key, by the hashes in
// the event. Neither forgives anything else: no gap, no wrong hash, and no checkpoint that stops fitting later. A file that is no
// checkpoint is [ErrNote].
func (l *Log) Restart(ctx context.Context, keys Keys, file []byte, actor, reason string) (audit.Event, error) {
	if report.Clean(reason) == "" || actor == "" {
		return audit.Event{}, errors.New("restart: actor and reason are required")
	}
	if err := isNote(file); err != nil {
		return audit.Event{}, err
	}
	s, err := l.read(ctx, file, 0, false)
	if err != nil {
		return audit.Event{}, err
	}
	e := audit.Event{
		Time: time.Now().UTC(), Kind: audit.Restart, Actor: report.Line(actor, report.MaxHeaderValue), Reason: report.Clean(reason),
	}
	var newest time.Time
	for _, j := range s.judge(keys) {
		sum := j.sum()
		if j.fits() || j.forgiven || slices.Contains(e.GivenUp, sum) {
			continue
		}
		e.GivenUp = append(e.GivenUp, sum)
		if e.Key == "" || !j.Time.Before(newest) {
			newest, e.Key, e.Checkpoint = j.Time, report.Key(sum), ""
			if utf8.Valid(j.note) {
				e.Checkpoint = string(j.note)
			}
		}
	}
	if len(e.GivenUp) == 0 {
		return audit.Event{}, ErrFits
	}
	return e, audit.New(l.js).Append(ctx, e)
}
