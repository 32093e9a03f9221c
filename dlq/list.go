package dlq

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Filter selects letters; zero fields select all.
type Filter struct {
	Site        string // site_id
	Class       report.Class
	Code        report.Code
	Upstream    string         // scheme://host of the source, or "file"
	Since       time.Time      // died at or after
	Until       time.Time      // died before
	DueBefore   time.Time      // has a deadline before
	Replays     int            // replayed at least so often
	Match       *regexp.Regexp // in the reason
	Quarantined bool           // only those that [Queue.Quarantined] says
	From        uint64         // sequence, at least
}

func (f Filter) selects(l Letter) bool {
	return (f.Class == "" || l.Class == f.Class) &&
		(f.Code == "" || l.Code == f.Code) &&
		(f.Upstream == "" || l.Upstream == f.Upstream) &&
		(f.Since.IsZero() || !l.FailedAt.Before(f.Since)) &&
		(f.Until.IsZero() || l.FailedAt.Before(f.Until)) &&
		(f.DueBefore.IsZero() || !l.Due.IsZero() && l.Due.Before(f.DueBefore)) &&
		l.Replays >= f.Replays &&
		(f.Match == nil || f.Match.MatchString(l.Reason))
}

// List yields the selected letters that exist when it begins, oldest first, without their payloads: only headers are
// read from the server.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[Letter, error] {
	return q.scan(ctx, f, true)
}

// Export yields the selected letters that exist when it begins, oldest first, whole.
func (q *Queue) Export(ctx context.Context, f Filter) iter.Seq2[Letter, error] {
	return q.scan(ctx, f, false)
}

func (q *Queue) scan(ctx context.Context, f Filter, headersOnly bool) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		site := report.Token("*")
		if f.Site != "" {
			site = report.NewToken(f.Site)
		}
		for m, err := range jsapi.ScanFrom(ctx, q.js, Stream, subject(site, "*"), max(1, f.From), headersOnly) {
			if err != nil {
				yield(Letter{}, fmt.Errorf("dead-letter queue: %w", err))
				return
			}
			var body []byte
			if !headersOnly {
				body = whole(m.Data)
			}
			l := readLetter(m.Subject, m.Sequence, m.Header, body)
			if f.selects(l) && (!f.Quarantined || q.Quarantined(l)) && !yield(l, nil) {
				return
			}
		}
	}
}

// whole is a payload that was read: never nil, even if it is empty.
func whole(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

// Rank is a letter's place where what is urgent comes first: the earliest deadline, none last; then the oldest death.
type Rank struct {
	Due, Died time.Time
	Sequence  uint64
}

// Rank is the letter's place among others.
func (l Letter) Rank() Rank { return Rank{l.Due, l.FailedAt, l.Sequence} }

// Compare is below zero if r comes before o.
func (r Rank) Compare(o Rank) int {
	if r.Due.IsZero() != o.Due.IsZero() {
		if r.Due.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(r.Due.Compare(o.Due), r.Died.Compare(o.Died), cmp.Compare(r.Sequence, o.Sequence))
}

// Urgent sorts what is kept of each letter by its [Rank]. With a Limit above zero it holds at most twice as many and yields the
// first of them.
type Urgent[T any] struct {
	Limit int
	rows  []ranked[T]
	full  bool // the first Limit rows are sorted, and were the first at some time
}

type ranked[T any] struct {
	rank Rank
	kept T
}

// Fits reports whether a letter of this rank can still be among the first: others need not be added.
func (u *Urgent[T]) Fits(r Rank) bool {
	return u.Limit <= 0 || !u.full || r.Compare(u.rows[u.Limit-1].rank) < 0
}

// Add takes what is kept of one letter.
func (u *Urgent[T]) Add(r Rank, kept T) {
	u.rows = append(u.rows, ranked[T]{r, kept})
	if u.Limit > 0 && len(u.rows) >= 2*u.Limit {
		u.sort()
	}
}

func (u *Urgent[T]) sort() {
	slices.SortFunc(u.rows, func(a, b ranked[T]) int { return a.rank.Compare(b.rank) })
	if u.Limit > 0 && len(u.rows) > u.Limit {
		clear(u.rows[u.Limit:])
		u.rows, u.full = u.rows[:u.Limit], true
	}
}

// All yields what was added, the most urgent first.
func (u *Urgent[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		u.sort()
		for _, r := range u.rows {
			if !yield(r.kept) {
				return
			}
		}
	}
}

// Keeps is after how long, counted from its death, the stream drops a letter by itself; 0, unless somebody has changed it, is never.
func (q *Queue) Keeps(ctx context.Context) (time.Duration, error) {
	s, err := q.js.Stream(ctx, Stream)
	if err != nil {
		return 0, fmt.Errorf("dead-letter queue: %w", err)
	}
	return s.CachedInfo().Config.MaxAge, nil
}
