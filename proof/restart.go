package proof

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// ErrFits says that every checkpoint fits, so there is none to give up.
var ErrFits = errors.New("every checkpoint fits: there is nothing to restart")

// Restart gives up every checkpoint that no longer fits, for instance after a restore from a backup: those of the stream, and the file
// (the note of one that was kept elsewhere; nil if there is none). It records the act in the trail, with the notes' hashes and the
// newest note. From then on [Log.Verify] lists those of the stream as given up, and [Log.Sign] signs again. Actor and reason are
// required. Nothing else is forgiven by it: neither gaps nor wrong hashes, nor a checkpoint that stops fitting later.
func (l *Log) Restart(ctx context.Context, keys Keys, file []byte, actor, reason string) (audit.Event, error) {
	if report.Clean(reason) == "" || actor == "" {
		return audit.Event{}, errors.New("restart: actor and reason are required")
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
		if j.fits() || j.restart != nil {
			continue
		}
		sum := report.PayloadHash(j.note)
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
