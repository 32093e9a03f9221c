package dlq

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// Candidate is what acting on a letter needs; small, as there may be 100,000 of them.
type Candidate struct {
	Sequence uint64
	Key      report.Key
	Site     report.Token
	Class    report.Class
	Code     report.Code
	Upstream string
	Due      time.Time // zero if there is no deadline
	FailedAt time.Time
	Replays  int
	Landed   bool // the ledger said done when the plan was made: replaying only closes the letter
}

// Rank is the letter's place among others.
func (c Candidate) Rank() Rank { return Rank{c.Due, c.FailedAt, c.Sequence} }

// Plan is what a bulk replay would do now.
type Plan struct {
	Send        []Candidate // by [Candidate.Rank]
	Matched     int         // letters that the filter selects, those of strangers apart
	Landed      int         // of them, the ledger says done: they are in Send, to be closed
	Quarantined int         // of them, replayed too often: not in Send
	DueSoon     int         // of those to be worked again: with a deadline within [DueSoon], or behind it
	Causes      []Cause     // of those to be worked again, the most frequent first
}

// DueSoon is how near a deadline is for [Plan.DueSoon] to count it.
const DueSoon = 48 * time.Hour

// Cause is what letters died of, and how many did.
type Cause struct {
	Class    report.Class `json:"class"`
	Code     report.Code  `json:"code"`
	Upstream string       `json:"upstream,omitempty"`
	Count    int          `json:"count"`
}

// PlanOptions select what a bulk replay is to send.
type PlanOptions struct {
	Filter
	Limit  int                  // most in [Plan.Send]; 0 = all
	Force  bool                 // quarantined letters too, see [By.Force]
	Rested func(Candidate) bool // nil = every letter; else only those for which it is true
}

// asking bounds the questions to the ledger that are on their way at once.
const asking = 64

// Plan finds out what a bulk replay would do with the letters that exist now. It reads their headers, and asks the ledger about each;
// any replica may answer, so what has landed in this very moment may be missed: the replay itself asks the leader. Nothing is written.
func (q *Queue) Plan(ctx context.Context, o PlanOptions) (Plan, error) {
	found, reopened, err := q.candidates(q.List(ctx, o.Filter))
	if err != nil {
		return Plan{}, err
	}
	return q.plan(ctx, found, reopened, o)
}

// PlanOf is the [Queue.Plan] for letters that are at hand; the filter selects nothing.
func (q *Queue) PlanOf(ctx context.Context, letters []Letter, o PlanOptions) (Plan, error) {
	found, reopened, err := q.candidates(func(yield func(Letter, error) bool) {
		for _, l := range letters {
			if !yield(l, nil) {
				return
			}
		}
	})
	if err != nil {
		return Plan{}, err
	}
	return q.plan(ctx, found, reopened, o)
}

func (q *Queue) plan(ctx context.Context, found []Candidate, reopened []uint64, o PlanOptions) (Plan, error) {
	if err := q.markLanded(ctx, found, reopened); err != nil {
		return Plan{}, fmt.Errorf("plan the replay: %w", err)
	}
	p := Plan{Matched: len(found)}
	for _, c := range found {
		switch {
		case c.Landed:
			p.Landed++
		case c.Replays >= q.most && !o.Force:
			p.Quarantined++
			continue
		case o.Rested != nil && !o.Rested(c):
			continue
		}
		p.Send = append(p.Send, c)
	}
	slices.SortFunc(p.Send, func(a, b Candidate) int { return a.Rank().Compare(b.Rank()) })
	if o.Limit > 0 && len(p.Send) > o.Limit {
		p.Send = slices.Clone(p.Send[:o.Limit])
	}
	p.count(time.Now())
	return p, nil
}

// candidates takes what is needed of letters, and of each the ledger revision above which an entry settles it.
func (q *Queue) candidates(letters iter.Seq2[Letter, error]) (found []Candidate, reopened []uint64, err error) {
	// A header's value keeps the whole header in memory, and few of them differ.
	known := map[string]string{}
	short := func(s string) string {
		if _, ok := known[s]; !ok {
			s = string([]byte(s))
			known[s] = s
		}
		return known[s]
	}
	for l, err := range letters {
		switch {
		case err != nil:
			return nil, nil, err
		case !l.wellNamed(): // no act can be recorded; Verify finds it
			continue
		}
		found = append(found, Candidate{
			Sequence: l.Sequence, Key: l.Key, Site: report.Token(short(string(l.Site))), Class: report.Class(short(string(l.Class))),
			Code: report.Code(short(string(l.Code))), Upstream: short(l.Upstream), Due: l.Due, FailedAt: l.FailedAt, Replays: l.Replays,
		})
		reopened = append(reopened, l.Reopened)
	}
	return found, reopened, nil
}

// wellNamed reports whether the letter lies on a subject that Guyline has made.
func (l Letter) wellNamed() bool {
	_, key := report.ParseKey(string(l.Key))
	_, site := l.Site.Site()
	return key == nil && site == nil
}

func (q *Queue) markLanded(ctx context.Context, found []Candidate, reopened []uint64) error {
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(asking)
	for i := range found {
		if running.Err() != nil {
			break
		}
		g.Go(func() error {
			e, err := q.ledger.Lookup(running, found[i].Site, found[i].Key)
			found[i].Landed = err == nil && e.Settles(reopened[i])
			return ignore(ignore(err, keyvalue.ErrNotFound), keyvalue.ErrUnreadable)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// count fills in what can be told from Send.
func (p *Plan) count(now time.Time) {
	causes := map[Cause]int{}
	for _, c := range p.Send {
		if c.Landed {
			continue
		}
		if !c.Due.IsZero() && c.Due.Before(now.Add(DueSoon)) {
			p.DueSoon++
		}
		causes[Cause{Class: c.Class, Code: c.Code, Upstream: c.Upstream}]++
	}
	for c, n := range causes {
		c.Count = n
		p.Causes = append(p.Causes, c)
	}
	slices.SortFunc(p.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Upstream, b.Upstream))
	})
}
