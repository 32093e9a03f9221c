package dlq

import (
	"context"
	"errors"
	"iter"
	"time"

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
// payload is the one that the key names, and that the audit trail has recorded this very death, with the same class, code, number of
// attempts and payload. A letter whose burial is still going on has no event yet and is sound.
func (q *Queue) Verify(ctx context.Context) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		var deaths Deaths
		for e, err := range q.trail.All(ctx) {
			switch {
			case errors.Is(err, audit.ErrUnreadable): // it is no death, and cannot be removed
			case err != nil:
				yield(Finding{}, err)
				return
			default:
				deaths.Add(e)
			}
		}
		q.VerifyAgainst(ctx, &deaths)(yield)
	}
}

// VerifyAgainst is [Queue.Verify] for who has read the trail already. It takes the keys of the letters that it yields out of deaths, so
// that afterwards [Queue.Missing] finds those that have none.
func (q *Queue) VerifyAgainst(ctx context.Context, deaths *Deaths) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		for l, err := range q.Export(ctx, Filter{}) {
			var problem string
			if err == nil {
				delete(deaths.open, l.Key)
				problem, err = q.check(ctx, l, deaths.of(Death(l)))
			}
			if !yield(Finding{l, problem}, err) || err != nil {
				return
			}
		}
	}
}

// Deaths is what the trail says of deaths. A message dies once, so the first death of each counts, or the one that corrects it.
//
// It takes about half a kilobyte a death, most of it in texts, and some 50 bytes for each report whose newest change is a death.
type Deaths struct {
	all  map[place][]dead
	open map[report.Key]struct{} // died, and nothing has been done about it since: there must be a letter
}

// place is where a message lay. With the time at which it was published it is a message for good.
type place struct {
	key    report.Key
	source stream.Ref
}

func placeOf(e audit.Event) place {
	return place{e.Key, stream.Ref{Stream: e.Stream, Sequence: e.Sequence}}
}

// dead is one message's death. Events that are older than the field have no time, and are about whatever lay there.
type dead struct {
	published time.Time
	replays   int // of the requeue stream; 0 in events that are older than the field
	recorded
}

// Add takes the next event of the trail, of any kind. A problem is that it is another death of a message that had died: only an
// abandoned one can die again, of a verdict that says that it corrects this.
func (d *Deaths) Add(e audit.Event) (problem string) {
	switch e.Kind {
	case audit.Death:
	case audit.AttemptFailed, audit.Quarantine: // neither takes a letter away
		return ""
	default:
		delete(d.open, e.Key)
		return ""
	}
	if d.all == nil {
		d.all, d.open = map[place][]dead{}, map[report.Key]struct{}{}
	}
	if len(e.Key) == 64 && report.IsKeyPrefix(string(e.Key)) { // else it is a stranger's, and would be a wildcard somewhere
		d.open[e.Key] = struct{}{}
	}
	if e.Stream != stream.Requeued { // elsewhere the time tells enough
		e.Replays = 0
	}
	now := recordOf(e)
	before := d.find(e)
	switch {
	case before == nil:
		d.all[placeOf(e)] = append(d.all[placeOf(e)], dead{e.Published, e.Replays, now})
	case before.recorded == now:
	case before.class == report.ClassAbandoned && e.Corrects:
		before.recorded = now
	default:
		return "the trail has recorded another death of this message before"
	}
	return ""
}

// find is the death of the very message that an event is about, nil if there is none yet.
func (d *Deaths) find(e audit.Event) *dead {
	all := d.all[placeOf(e)]
	for i := range all {
		if all[i].published.Equal(e.Published) && all[i].replays == e.Replays {
			return &all[i]
		}
	}
	for i := range all {
		if all[i].published.IsZero() || e.Published.IsZero() {
			return &all[i]
		}
	}
	return nil
}

func (d *Deaths) of(e audit.Event) recorded {
	found := d.find(e)
	if found == nil {
		e.Replays = 0
		found = d.find(e)
	}
	if found == nil {
		return recorded{}
	}
	return found.recorded
}

// recorded is what the trail says of a death, as far as its letter says the same.
type recorded struct {
	hash     string
	class    report.Class
	code     report.Code
	attempts int
	payload  string // empty in events that are older than payload hashes
}

// recordOf writes the texts as a letter's headers do, so that both can be compared.
func recordOf(e audit.Event) recorded {
	return recorded{
		e.Hash, report.Class(report.Line(string(e.Class), report.MaxHeaderValue)), report.Code(report.Line(string(e.Code), report.MaxHeaderValue)),
		e.Attempt, e.Payload,
	}
}

// is reports whether a letter says the same.
func (r recorded) is(l Letter) bool {
	want := recordOf(Death(l))
	if r.payload == "" {
		want.payload = ""
	}
	return r == want
}

func (q *Queue) check(ctx context.Context, l Letter, r recorded) (string, error) {
	if problem := l.unsound(); problem != "" {
		return problem, nil
	}
	if r.is(l) {
		return "", nil
	}
	switch moving, err := q.moving(ctx, l); {
	case errors.Is(err, audit.ErrUnreadable):
		return "the audit trail holds something about this report that is not an event", nil
	case moving || err != nil:
		return "", err
	}
	switch r.hash {
	case "":
		return "the audit trail has not recorded this death", nil
	case l.Hash:
		return "the audit trail has recorded another class, code, number of attempts or payload for this death", nil
	}
	return anotherReason, nil
}

const anotherReason = "the audit trail has recorded another reason for this death"

// Sound reports whether a whole letter, as can be seen in it alone, is one that Guyline has written. Nobody acts on another: see [ErrForged].
func (l Letter) Sound() bool { return l.unsound() == "" }

// unsound is what is wrong with a whole letter as can be seen in it alone; empty if nothing is.
func (l Letter) unsound() string {
	if l.Hash != report.AuditHash(l.Key, l.Reason) {
		return "the audit hash does not fit the reason"
	}
	if m := stream.Read(stream.Ref{}, "", nil, l.Body, l.PublishedAt); m.Key != l.Key || m.Site != l.Site {
		return "the payload is another report's"
	}
	return ""
}

// moving reports whether the letter is younger than what Verify has read: its burial is going on, or has ended since.
func (q *Queue) moving(ctx context.Context, l Letter) (bool, error) {
	if left, err := q.unburied(ctx, l); len(left) > 0 || err != nil {
		return true, err
	}
	if _, err := q.At(ctx, l.Sequence); err != nil {
		return errors.Is(err, ErrNotFound), ignore(err, ErrNotFound)
	}
	var now Deaths
	for e, err := range q.trail.Log(ctx, l.Site, l.Key) {
		if err != nil {
			return false, err
		}
		now.Add(e)
	}
	return now.of(Death(l)).is(l), nil
}
