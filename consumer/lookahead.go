package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// ahead is what the server said of a report when it was looked up together with those that arrived with it. Without an answer the
// report is looked up on its own.
type ahead struct {
	looked bool            // the ledger has answered
	entry  *keyvalue.Entry // nil: there seems to be none
	known  bool            // the registry knows the site

	failed bool // the trail says that its last delivery ended with a failed attempt
}

// trailTimeout bounds the look-up of the trail, which only those reports need that were delivered before: the others wait for it too.
const trailTimeout = 500 * time.Millisecond

// lookAhead looks up the reports of one pull, in one request to each of the ledger and the registry of sites, at the same time; of those
// that were delivered before also the trail. It decides nothing: rows 3, 4 and 4b do. Letters are not looked up together: only their
// leader may say that there is none (row 3b), and any replica, or mirror, may answer for many.
func (c *Consumer) lookAhead(batch []*delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var refs, before []report.Ref
	sites := make(map[report.Token]bool, 1)
	for _, d := range batch {
		if d.Invalid != nil {
			continue
		}
		ref := report.Ref{Site: d.Site, Key: d.Key}
		refs = append(refs, ref)
		if d.again() {
			before = append(before, ref)
		}
		sites[d.Site] = false
	}
	if len(refs) == 0 {
		return
	}
	var (
		asking  sync.WaitGroup
		entries map[report.Key]keyvalue.Answer
		newest  map[report.Key]audit.Event
	)
	ask := func(what string, n int, request func() error) {
		asking.Go(func() {
			if err := request(); err != nil {
				c.log.Debug("not looked up together", "what", what, "number", n, "err", err)
			}
		})
	}
	ask("entries", len(refs), func() (err error) { entries, err = c.ledger.Answers(ctx, refs); return err })
	ask("sites", len(sites), func() error { return c.sites.KnownMany(ctx, sites) })
	if len(before) > 1 { // one alone asks in its rows
		ask("events", len(before), func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, trailTimeout)
			defer cancel()
			newest, err = c.trail.Newest(ctx, before)
			return err
		})
	}
	asking.Wait()
	for _, d := range batch {
		if d.Invalid != nil {
			continue
		}
		d.ahead = ahead{looked: entries != nil, known: sites[d.Site]}
		switch a, found := entries[d.Key]; {
		case found && a.Err != nil:
			d.ahead.looked = false
		case found:
			d.ahead.entry = new(a.Entry)
		}
		if e, found := newest[d.Key]; found {
			d.ahead.failed = e.Fails(d.Ref.Stream, d.Ref.Sequence, d.count-1)
		}
	}
}
