package fate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/guyline/guyline/report"
)

// Down is an upstream that is taken to be down, as its parked reports tell.
type Down struct {
	Upstream string      `json:"upstream"` // scheme://host
	Parked   uint64      `json:"parked"`
	Since    time.Time   `json:"since"`  // when the first of them was put aside
	Code     report.Code `json:"code"`   // the newest of them
	Reason   string      `json:"reason"` // and what it met
}

// countCopies reads the copies in the requeue stream, or the parked ones alone: when the oldest was published, and which upstreams are down.
func (f *Finder) countCopies(ctx context.Context, c *Counts, parked bool) error {
	of, newest := map[string]*Down{}, map[string]uint64{}
	for m, err := range f.queues.Copies(ctx, parked) {
		if err != nil {
			return err
		}
		c.older(m.PublishedAt)
		p := m.Carried.Parking
		if p == nil || !m.Parked() { // or not parked by a worker for an upstream
			continue
		}
		d := of[p.Upstream]
		if d == nil {
			d = &Down{Upstream: p.Upstream, Since: p.Since}
			of[p.Upstream] = d
		}
		d.Parked++
		if m.Ref.Sequence > newest[p.Upstream] {
			newest[p.Upstream], d.Code, d.Reason = m.Ref.Sequence, p.Code, p.Reason
		}
		if p.Since.Before(d.Since) {
			d.Since = p.Since
		}
	}
	for _, d := range of {
		c.Down = append(c.Down, *d)
	}
	slices.SortFunc(c.Down, func(a, b Down) int {
		return cmp.Or(cmp.Compare(b.Parked, a.Parked), cmp.Compare(a.Upstream, b.Upstream))
	})
	return nil
}
