package consumer

import (
	"context"
	"sync"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// ahead is what the server said of a report when it was looked up together with those that arrived with it. Without an answer the
// report is looked up on its own.
type ahead struct {
	looked bool           // the ledger has answered
	entry  keyvalue.Entry // revision 0: there seems to be none
	known  bool           // the registry knows the site
}

// lookAhead looks up the reports of one pull, in one request to the ledger and one to the registry of sites, at the same time. It
// decides nothing: row 3 and row 4 do.
func (c *Consumer) lookAhead(batch []*delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	refs := make([]report.Ref, 0, len(batch))
	sites := make(map[report.Token]bool, 1)
	for _, d := range batch {
		if d.Invalid == nil {
			refs = append(refs, report.Ref{Site: d.Site, Key: d.Key})
			sites[d.Site] = false
		}
	}
	if len(refs) == 0 {
		return
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		if err := c.sites.KnownMany(ctx, sites); err != nil {
			c.log.Debug("sites not looked up together", "sites", len(sites), "err", err)
		}
	})
	found, err := c.ledger.Answers(ctx, refs)
	asking.Wait()
	if err != nil {
		c.log.Debug("reports not looked up together", "reports", len(refs), "err", err)
	}
	for _, d := range batch {
		if d.Invalid != nil {
			continue
		}
		a := found[d.Key]
		d.ahead = ahead{looked: err == nil && a.Err == nil, entry: a.Entry, known: sites[d.Site]}
	}
}
