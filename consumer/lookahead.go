package consumer

import (
	"context"
	"sync"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// ahead is what the server said of a report when it was looked up together with those that arrived with it. Without an answer the
// report is looked up on its own.
type ahead struct {
	looked bool           // the ledger has answered
	entry  keyvalue.Entry // revision 0: there seems to be none
	known  bool           // the registry knows the site

	unburied bool // of a report that was delivered before: it has no letter
	failed   bool // the same: the trail says that its last delivery ended with a failed attempt
}

// lookAhead looks up the reports of one pull, in one request to each of the ledger and the registry of sites, at the same time; of those
// that were delivered before also the letters and the trail. It decides nothing: rows 3, 3b, 4 and 4b do.
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
		asking   sync.WaitGroup
		entries  map[report.Key]keyvalue.Answer
		newest   map[report.Key]audit.Event
		unburied map[report.Key]bool
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
		ask("letters", len(before), func() (err error) { unburied, err = c.letters.Without(ctx, before); return err })
		ask("events", len(before), func() (err error) { newest, err = c.trail.Newest(ctx, before); return err })
	}
	asking.Wait()
	for _, d := range batch {
		if d.Invalid != nil {
			continue
		}
		a := entries[d.Key]
		d.ahead = ahead{
			looked: entries != nil && a.Err == nil, entry: a.Entry, known: sites[d.Site],
			unburied: unburied[d.Key], failed: newest[d.Key].Fails(d.Ref.Stream, d.Ref.Sequence, d.count-1),
		}
	}
}
