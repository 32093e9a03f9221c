package main

import (
	"context"
	"iter"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// A portion of a list: this many reports, or as many as have so many bytes.
const (
	portionRows  = 500
	portionBytes = 1 << 20
)

// inPortions groups the rows of a list, in order, so that the ledger is asked once for many. The last group is what is left.
func inPortions(rows iter.Seq[report.Row]) iter.Seq[[]report.Row] {
	return func(yield func([]report.Row) bool) {
		var portion []report.Row
		size := 0
		for row := range rows {
			portion, size = append(portion, row), size+len(row.Body)
			if len(portion) < portionRows && size < portionBytes {
				continue
			}
			if !yield(portion) {
				return
			}
			portion, size = portion[:0], 0
		}
		if len(portion) > 0 {
			yield(portion)
		}
	}
}

// settled finds what the ledger has of these reports. A ledger that does not answer settles none: a report that is sent all the
// same is recognised by whoever works it.
func (s *session) settled(ctx context.Context, rows []report.Row) map[report.Key]keyvalue.Entry {
	refs := make([]report.Ref, 0, len(rows))
	for _, row := range rows {
		if row.Err == nil {
			refs = append(refs, row.Event.Ref())
		}
	}
	entries, err := s.ledger.LookupMany(ctx, refs)
	if err != nil {
		return nil
	}
	return entries
}
