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

// down reads the parked reports.
func (f *Finder) down(ctx context.Context) (down []Down, err error) {
	of := map[string]*Down{}
	for m, err := range f.queues.Parked(ctx) {
		if err != nil {
			return nil, err
		}
		p := m.Carried.Parking
		if p == nil { // not parked by a worker for an upstream
			continue
		}
		d := of[p.Upstream]
		if d == nil {
			d = &Down{Upstream: p.Upstream, Since: p.Since}
			of[p.Upstream] = d
		}
		d.Parked++
		d.Code, d.Reason = p.Code, p.Reason
		if p.Since.Before(d.Since) {
			d.Since = p.Since
		}
	}
	for _, d := range of {
		down = append(down, *d)
	}
	slices.SortFunc(down, func(a, b Down) int {
		return cmp.Or(cmp.Compare(b.Parked, a.Parked), cmp.Compare(a.Upstream, b.Upstream))
	})
	return down, nil
}
