package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// How often the canary is looked at: soon at first, then less and less often.
const (
	firstLook = 100 * time.Millisecond
	lastLook  = 3 * time.Second
)

// spread takes n candidates out of send, in turns from each cause and upstream in the order of send, and leaves the others in their
// order. One that has landed tells nothing and is not taken.
func spread(send []Candidate, n int) (taken, rest []Candidate) {
	groups := map[Cause][]int{}
	var order []Cause
	for i, c := range send {
		if c.Landed {
			continue
		}
		cause := Cause{Class: c.Class, Code: c.Code, Upstream: c.Upstream}
		if groups[cause] == nil {
			order = append(order, cause)
		}
		groups[cause] = append(groups[cause], i)
	}
	picked := map[int]bool{}
	for turn := 0; len(picked) < n; turn++ {
		before := len(picked)
		for _, cause := range order {
			if g := groups[cause]; turn < len(g) && len(picked) < n {
				picked[g[turn]] = true
			}
		}
		if len(picked) == before {
			break
		}
	}
	for i, c := range send {
		if picked[i] {
			taken = append(taken, c)
		} else {
			rest = append(rest, c)
		}
	}
	return taken, rest
}

// await is [bulkRun.watch] for as long as the patience lasts.
func (r *bulkRun) await(ctx context.Context, canary []Candidate) error {
	if r.b.Patience == 0 {
		return r.watch(ctx, canary)
	}
	waiting, cancel := context.WithTimeout(ctx, r.b.Patience)
	defer cancel()
	err := r.watch(waiting, canary)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return ErrSlow
	}
	return err
}

// watch waits until each report of the canary has landed or died again, and says in the tally what became of them.
func (r *bulkRun) watch(ctx context.Context, canary []Candidate) error {
	died := map[report.Code]int{}
	waiting, vanished := slices.Clone(canary), map[uint64]bool{}
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		var still []Candidate
		for _, c := range waiting {
			end, code, err := r.q.probe(ctx, c)
			switch {
			case err != nil:
				return fmt.Errorf("watch the canary: %w", err)
			case end == hasLanded:
				r.tally.CanaryLanded++
			case end == diedAgain, end == nowhere && vanished[c.Sequence]:
				r.tally.CanaryDied++
				died[code]++
			default:
				vanished[c.Sequence] = end == nowhere // or in motion: look once more
				still = append(still, c)
			}
		}
		if waiting = still; len(waiting) == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if 2*r.tally.CanaryLanded <= len(canary) {
		r.tally.Stopped = fmt.Sprintf("most of the canary did not land: %d of %d died again (%s)", r.tally.CanaryDied, len(canary), codes(died))
	}
	return nil
}

// probeEnd is what has become of a report that was replayed.
type probeEnd int

const (
	queued probeEnd = iota
	hasLanded
	diedAgain
	nowhere // discarded, for instance
)

// probe looks where a replayed report is, in the order in which it flows; while it is queued that is a single request.
func (q *Queue) probe(ctx context.Context, c Candidate) (probeEnd, report.Code, error) {
	if _, err := q.queues.Copy(ctx, c.Site, c.Key); !errors.Is(err, jsapi.ErrNotFound) {
		return queued, "", err
	}
	l, err := q.Current(ctx, c.Site, c.Key)
	if err == nil && l.Sequence > c.Sequence {
		return diedAgain, l.Code, nil
	}
	if ignore(err, ErrNotFound) != nil {
		return queued, "", err
	}
	e, err := q.ledger.LookupLeader(ctx, c.Site, c.Key)
	switch {
	case err == nil && e.State == keyvalue.Done:
		return hasLanded, "", nil
	case ignore(err, keyvalue.ErrNotFound) != nil:
		return queued, "", err
	}
	return nowhere, "given-up", nil
}

// codes lists what they died of, the most frequent first.
func codes(died map[report.Code]int) string {
	var parts []string
	for _, code := range slices.SortedFunc(maps.Keys(died), func(a, b report.Code) int {
		return cmp.Or(cmp.Compare(died[b], died[a]), cmp.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d x %s", died[code], report.Line(string(code), 40)))
	}
	return strings.Join(parts, ", ")
}
