package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// commit is row 7a: it writes the result by compare-and-set on the revision that row 3 read. It does not wait: committed goes on when the
// server has answered this very write, and until then the report stays in hand.
func (c *Consumer) commit(d *delivery, n int, result []byte, revision uint64) {
	at := time.Now().UTC()
	c.ledger.StartCommit(report.Ref{Site: d.Site, Key: d.Key}, c.entry(d, n, result, revision, at), func(_ uint64, err error) {
		if err == nil {
			c.did("7a committed")
			c.finish(d, c.succeed(d, n))
			return
		}
		c.inWork.Go(func() { // the answers to other commits wait behind this one
			d.handlers = &handlers{all: &c.inWork}
			defer d.handlers.close()
			now, err := c.insist(d, c.entry(d, n, result, revision, at), err)
			c.finish(d, c.committed(d, n, now, err))
		})
	})
	c.did("7a started")
}

// entry is what a commit writes.
func (c *Consumer) entry(d *delivery, n int, result []byte, revision uint64, at time.Time) keyvalue.Entry {
	return keyvalue.Entry{
		State: keyvalue.Done, SiteID: d.Event.SiteID, SourceURI: d.Event.SourceURI, Result: result, Attempts: n,
		Worker: c.cfg.Worker, Commit: d.commitID(), Time: at, Revision: revision,
	}
}

// insist repeats a commit that the server has not taken, for err, and returns the entry that stands then: ours, or another's if it was first.
func (c *Consumer) insist(d *delivery, ours keyvalue.Entry, err error) (now keyvalue.Entry, _ error) {
	first := true
	failed := c.repeat(d, "commit", func() error {
		if !first {
			_, err = c.ledger.Commit(context.Background(), ours)
		}
		first = false
		if now = ours; !errors.Is(err, keyvalue.ErrConflict) {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*requestTimeout)
		defer cancel()
		now, err = c.ledger.LookupLeader(ctx, d.Site, d.Key)
		if errors.Is(err, keyvalue.ErrNotFound) { // it has grown too old meanwhile: GUYLINE_LEDGER_TTL
			now, err = keyvalue.Entry{}, nil
		}
		if err == nil && now.State == "" { // or somebody deleted the entry
			ours.Revision = now.Revision
			_, err = c.ledger.Commit(ctx, ours)
			now = ours
		}
		return err
	})
	return now, failed
}
