package stream

import (
	"context"
	"iter"
	"sync"

	"github.com/guyline/guyline/report"
)

// A portion of a list: this many reports, or as many as have so many bytes.
const (
	portionRows  = 500
	portionBytes = 1 << 20
)

// portion is some rows of a list that follow each other, and what becomes of them.
type portion struct {
	rows    []report.Row
	refs    []report.Ref  // of rows; zero where one has an error
	asked   chan struct{} // closed when settled is known
	settled map[report.Key]bool
	answers []answer // to rows
	waiting int      // sent and not answered
}

func newPortion(rows []report.Row) *portion {
	p := &portion{rows: rows, asked: make(chan struct{}), refs: make([]report.Ref, len(rows)), answers: make([]answer, len(rows))}
	for i, row := range rows {
		if row.Err == nil {
			p.refs[i] = row.Event.Ref()
		}
	}
	return p
}

// ask finds what is settled of a portion.
func (p *portion) ask(ctx context.Context, settled Settled) {
	defer close(p.asked)
	refs := make([]report.Ref, 0, len(p.rows))
	for i, row := range p.rows {
		if row.Err == nil {
			refs = append(refs, p.refs[i])
		}
	}
	if len(refs) > 0 {
		p.settled = settled(ctx, refs)
	}
}

// inPortions groups rows, in order. The last group is what is left.
func inPortions(rows iter.Seq[report.Row]) iter.Seq[[]report.Row] {
	return func(yield func([]report.Row) bool) {
		var group []report.Row
		size := 0
		for row := range rows {
			if group == nil {
				group = make([]report.Row, 0, portionRows)
			}
			group, size = append(group, row), size+len(row.Body)
			if len(group) < portionRows && size < portionBytes {
				continue
			}
			if !yield(group) {
				return
			}
			group, size = nil, 0
		}
		if len(group) > 0 {
			yield(group)
		}
	}
}

// askedAhead is how many portions wait, besides one at either end, to be worked while the questions about them are answered.
const askedAhead = 2

// readAhead yields the portions of a list. While one is worked, questions about the next are under way, and one more is read; no more than
// those are held. The goroutines end with the loop, which waits for them.
func readAhead(ctx context.Context, rows iter.Seq[report.Row], settled Settled) iter.Seq[*portion] {
	return func(yield func(*portion) bool) {
		ctx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		next := make(chan *portion, askedAhead)
		running.Go(func() {
			defer close(next)
			for group := range inPortions(rows) {
				p := newPortion(group)
				if settled != nil {
					running.Go(func() { p.ask(ctx, settled) })
				} else {
					close(p.asked)
				}
				select {
				case next <- p:
				case <-ctx.Done():
					return
				}
			}
		})
		for p := range next {
			if <-p.asked; ctx.Err() != nil || !yield(p) {
				return
			}
		}
	}
}
