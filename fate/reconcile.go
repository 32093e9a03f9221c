package fate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Reconciliation is where the reports of a list stand.
type Reconciliation struct {
	Standings []Standing // in the order of the list

	// Moved is how many reports were in motion while they were read: a later look found another fate than an earlier one.
	Moved int

	// Forgets is after how long the ledger forgets a settled report, which is unknown from then on; 0 = never.
	Forgets time.Duration
}

const (
	lookers = 16  // requests that wait for the leader at once
	chunk   = 500 // entries in memory at once
	looks   = 6   // the most that are spent on a report that was known and then unknown
)

// Reconcile finds where many reports stand, which must differ from each other. Unlike [Finder.Of] for each of them it reads the queues
// and the letters as a whole, and what it keeps in memory grows with the list alone.
//
// The first look asks any replica, in the order of the flow. Who is found done is done. All others are looked at again, and
// that look's answer is given. It asks the leader, report by report; only what is seen in the publishers' queue, has no letter and is not
// settled, is called waiting without that. A report that is unknown now has moved against the flow, as a replay
// does, if an earlier look or the audit trail knows it; it is looked at again, up to six times in all.
//
// Something unreadable in the ledger or the trail makes its report unknown, with a reason. progress is told what is being
// read, and how much of how much has been; it is called from one goroutine at a time.
func (f *Finder) Reconcile(ctx context.Context, refs []report.Ref, progress func(what string, n, total int)) (Reconciliation, error) {
	r := &round{
		f: f, refs: refs, at: make(map[report.Key]int, len(refs)), progress: progress,
		out: make([]Standing, len(refs)), letter: make([]bool, len(refs)), moved: make([]bool, len(refs)),
	}
	for i, ref := range refs {
		if _, twice := r.at[ref.Key]; twice {
			return Reconciliation{}, fmt.Errorf("reconcile: %s is in the list twice", ref.Key.Short())
		}
		r.at[ref.Key] = i
	}
	if err := r.first(ctx); err != nil {
		return Reconciliation{}, err
	}
	var open []int
	for i, s := range r.out {
		if s.Fate != Done {
			open = append(open, i)
		}
	}
	for n := 2; len(open) > 0 && n <= looks; n++ {
		var err error
		if open, err = r.again(ctx, open); err != nil {
			return Reconciliation{}, err
		}
	}
	out := Reconciliation{Standings: r.out}
	var err error
	if out.Forgets, err = f.ledger.Kept(ctx); err != nil {
		return Reconciliation{}, err
	}
	for _, moved := range r.moved {
		if moved {
			out.Moved++
		}
	}
	return out, nil
}

// round is one reconciliation while it runs.
type round struct {
	f        *Finder
	refs     []report.Ref
	at       map[report.Key]int // index in refs, out, letter and moved
	out      []Standing         // what the last look found
	letter   []bool             // the first look saw one
	moved    []bool             // a later look found another fate than an earlier one
	progress func(what string, n, total int)
}

// first looks at all, in the order of the flow. Later places overrule earlier ones as the fates' precedence wants it.
func (r *round) first(ctx context.Context) error {
	for i := range r.out {
		r.out[i].Fate = Unknown
	}
	for _, name := range stream.Names() {
		n := 0
		for g, err := range r.f.queues.Glimpses(ctx, name) {
			if err != nil {
				return err
			}
			if i, ok := r.at[g.Key]; ok {
				r.out[i] = Standing{Fate: Waiting, Due: g.Due}
			}
			n++
			r.progress("reading the queues", n, 0)
		}
	}
	n := 0
	for l, err := range r.f.letters.List(ctx, dlq.Filter{}) {
		if err != nil {
			return err
		}
		if i, ok := r.at[l.Key]; ok {
			if r.out[i].Fate == Unknown {
				r.out[i] = dead(l)
			}
			r.letter[i] = true
		}
		n++
		r.progress("reading the letters", n, 0)
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	return r.discarded(ctx)
}

// settled reads the ledger.
func (r *round) settled(ctx context.Context) error {
	for low := 0; low < len(r.refs); low += chunk {
		high := min(low+chunk, len(r.refs))
		entries, err := r.f.ledger.LookupMany(ctx, r.refs[low:high])
		if err != nil {
			return err
		}
		for key, e := range entries {
			switch s := &r.out[r.at[key]]; {
			case e.State == keyvalue.Done:
				*s = Standing{Fate: Done, Since: e.Time, Due: s.Due}
			case s.Fate == Unknown: // reopened, and the requeueing was cut short
				s.Fate = Waiting
			}
		}
		r.progress("reading the ledger", high, len(r.refs))
	}
	return nil
}

// discarded reads the trail of those that were found nowhere else.
func (r *round) discarded(ctx context.Context) error {
	var open []int
	for i, s := range r.out {
		if s.Fate == Unknown {
			open = append(open, i)
		}
	}
	return r.known(ctx, open, func(i int) error {
		e, err := r.f.trail.Discarded(ctx, r.refs[i].Site, r.refs[i].Key)
		switch {
		case err == nil:
			r.out[i] = givenUp(e)
		case !errors.Is(err, audit.ErrNotFound) && !errors.Is(err, audit.ErrUnreadable):
			return err
		}
		return nil
	})
}

// known calls do for each of the reports that the trail has events of.
func (r *round) known(ctx context.Context, open []int, do func(int) error) error {
	for low := 0; low < len(open); low += chunk {
		some := open[low:min(low+chunk, len(open))]
		known, err := r.f.trail.Known(ctx, r.some(some))
		if err != nil {
			return err
		}
		for _, i := range some {
			if known[r.refs[i].Key] {
				if err := do(i); err != nil {
					return err
				}
			}
		}
		r.progress("reading the trail", low+len(some), len(open))
	}
	return nil
}

// again looks once more at some reports, and returns those that cannot be unknown but are.
func (r *round) again(ctx context.Context, open []int) (lost []int, err error) {
	glimpses := map[report.Key]stream.Glimpse{}
	for g, err := range r.f.queues.Glimpses(ctx, stream.Reports) {
		if err != nil {
			return nil, err
		}
		if _, ok := r.at[g.Key]; ok {
			glimpses[g.Key] = g
		}
	}
	var queued, others, unknown []int
	for _, i := range open {
		if _, ok := glimpses[r.refs[i].Key]; ok && !r.letter[i] {
			queued = append(queued, i)
		} else {
			others = append(others, i)
		}
	}
	found := func(n, i int, now Standing) {
		r.moved[i] = r.moved[i] || r.out[i].Fate != now.Fate
		r.out[i] = now
		switch {
		case now.Fate != Unknown || now.Reason != "":
		case r.moved[i]:
			lost = append(lost, i)
		default:
			unknown = append(unknown, i)
		}
		r.progress("looking again", n, len(open))
	}
	if err := r.waiting(ctx, queued, glimpses, found); err != nil {
		return nil, err
	}
	err = each(ctx, others, func(i int) (Standing, error) {
		if g, ok := glimpses[r.refs[i].Key]; ok {
			return r.glimpsed(ctx, r.refs[i], g)
		}
		m, err := r.f.queues.Copy(ctx, r.refs[i].Site, r.refs[i].Key)
		return standing(r.f.look(ctx, r.refs[i].Site, r.refs[i].Key, m, err))
	}, func(n, i int, now Standing) { found(len(queued)+n, i, now) })
	if err != nil {
		return nil, err
	}
	return lost, r.known(ctx, unknown, func(i int) error {
		lost = append(lost, i)
		return nil
	})
}

// waiting is the second look at reports that were seen in the publishers' queue just now and that had no letter before.
func (r *round) waiting(ctx context.Context, queued []int, glimpses map[report.Key]stream.Glimpse, found func(n, i int, now Standing)) error {
	for low := 0; low < len(queued); low += chunk {
		some := queued[low:min(low+chunk, len(queued))]
		entries, err := r.f.ledger.LookupMany(ctx, r.some(some))
		if err != nil {
			return err
		}
		for n, i := range some {
			key := r.refs[i].Key
			now := Standing{Fate: Waiting, Due: glimpses[key].Due}
			if e := entries[key]; e.State == keyvalue.Done {
				now.Fate, now.Since = Done, e.Time
			}
			found(low+n+1, i, now)
		}
	}
	return nil
}

// some are the references of the reports with these indexes.
func (r *round) some(indexes []int) []report.Ref {
	refs := make([]report.Ref, len(indexes))
	for n, i := range indexes {
		refs[n] = r.refs[i]
	}
	return refs
}

// glimpsed is the second look at a report of which a glimpse was had in REPORTS, and that something else contradicts: the leader is
// asked for the message too.
func (r *round) glimpsed(ctx context.Context, ref report.Ref, g stream.Glimpse) (Standing, error) {
	m, err := r.f.queues.Submitted(ctx, g)
	if errors.Is(err, jsapi.ErrNotFound) {
		m, err = r.f.queues.Copy(ctx, ref.Site, ref.Key)
	}
	return standing(r.f.look(ctx, ref.Site, ref.Key, m, err))
}
