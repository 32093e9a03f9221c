package proof

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
)

// An event is looked for this far from its place, and farther as long as there are tries left.
const (
	reach = 256
	tries = 4 << 20 // hashes, a few seconds
)

// blame names what was done to the events after base, given the record hashes of those that were signed. The hash of an event has
// its sequence in it, so an event that has moved is found by trying the places around.
type blame struct {
	base   uint64
	want   []tlog.Hash // of the events base+1 and on
	found  []bool
	shift  int64  // how far the last event that was found has moved
	newest uint64 // highest signed sequence that was found
	left   int    // tries
	lone   []lone
	moved  []moved
}

// lone is an event that was not signed.
type lone struct {
	sequence uint64
	expected uint64 // the signed event in whose place it seems to be
}

// moved is a signed event that comes after one that followed it.
type moved struct{ event, after uint64 }

func newBlame(base int64, signed []tlog.Hash) *blame {
	return &blame{base: uint64(base), newest: uint64(base), want: signed[base:], found: make([]bool, int64(len(signed))-base), left: tries}
}

func (s *survey) blame(ctx context.Context, base int64, signed []tlog.Hash) error {
	b := newBlame(base, signed)
	for m, err := range jsapi.Scan(ctx, s.log.js, audit.Stream, "reports.audit.>", false) {
		switch {
		case err != nil:
			return fmt.Errorf("audit trail: %w", err)
		case m.Sequence > s.last:
		case m.Sequence > b.base:
			b.place(m.Sequence, func(sequence uint64) tlog.Hash { return eventLeaf(sequence, m.Subject, m.Data) })
		}
	}
	for _, f := range b.verdict() {
		s.found(f)
	}
	return nil
}

// place finds out which signed event this one is.
func (b *blame) place(sequence uint64, hash func(uint64) tlog.Hash) {
	at := int64(sequence) + b.shift
	for d := int64(0); d <= reach || d <= int64(len(b.want)) && b.left > 0; d++ {
		if d > reach {
			b.left -= 2
		}
		for _, k := range []int64{at + d, at - d} {
			if !b.is(k, hash) {
				continue
			}
			b.found[k-int64(b.base)-1] = true
			if uint64(k) < b.newest {
				b.moved = append(b.moved, moved{uint64(k), b.newest})
			} else {
				b.newest, b.shift = uint64(k), k-int64(sequence)
			}
			return
		}
	}
	b.lone = append(b.lone, lone{sequence, uint64(at)})
}

func (b *blame) is(k int64, hash func(uint64) tlog.Hash) bool {
	i := k - int64(b.base) - 1
	return i >= 0 && i < int64(len(b.want)) && !b.found[i] && hash(uint64(k)) == b.want[i]
}

func (b *blame) verdict() (findings []Finding) {
	say := func(sequence uint64, format string, args ...any) {
		findings = append(findings, Finding{What: InTrail, Sequence: sequence, Problem: fmt.Sprintf(format, args...)})
	}
	end := b.base + uint64(len(b.want))
	for _, l := range b.lone {
		i := l.expected - b.base - 1
		switch {
		case l.expected > b.base && l.expected <= end && !b.found[i]:
			b.found[i] = true
			say(l.expected, "the event was edited")
			b.newest = max(b.newest, l.expected)
		case l.expected <= end:
			say(l.sequence, "the event was put in: it is not one of those that were signed")
		}
	}
	for _, m := range b.moved {
		say(m.event, "the event was moved: it now comes after event %d", m.after)
	}
	for from := b.base + 1; from <= end; from++ {
		if b.found[from-b.base-1] {
			continue
		}
		to := from
		for to < end && !b.found[to-b.base] {
			to++
		}
		what := "removed"
		if from > b.newest {
			what = "cut off"
		}
		if from == to {
			say(from, "the event was %s", what)
		} else {
			say(from, "the events %d to %d were %s", from, to, what)
		}
		from = to
	}
	return findings
}
