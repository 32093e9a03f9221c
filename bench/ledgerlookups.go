package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// way is a way to ask for entries: which ones, and whether one by one.
type way struct {
	name  string
	known bool
	next  func(n int) []int // n numbers of entries
	alone bool
}

func (b *ledgerBench) ways() []way {
	keys := b.cfg.Keys
	among := func(from, to int) func(int) []int {
		return func(n int) []int {
			some := make([]int, n)
			for i := range some {
				some[i] = from + b.random.IntN(max(1, to-from))
			}
			return some
		}
	}
	at := keys / 7
	inOrder := func(n int) []int {
		some := make([]int, n)
		for i := range some {
			some[i] = at % keys
			at++
		}
		return some
	}
	old := keys / 3
	return []way{
		{"unknown", false, among(keys, 10*keys), false},
		{"newest 1,000", true, among(keys-1000, keys), false},
		{"old, in the order of the commits", true, inOrder, false},
		{"old, 100,000 neighbours shuffled", true, among(old, min(keys, old+100_000)), false},
		{"old, any, for the first time", true, among(0, keys), false},
		{"old, any, again", true, among(0, keys), false},
		{"unknown, one by one", false, among(keys, 10*keys), true},
		{"newest 1,000, one by one", true, among(keys-1000, keys), true},
		{"old, any, one by one", true, among(0, keys), true},
	}
}

// measure asks for entries in one way, at most for some seconds.
func (b *ledgerBench) measure(ctx context.Context, w way) (Cost, error) {
	var took []time.Duration
	end := time.Now().Add(longest)
	cost, err := b.costOf(func() (n int, err error) {
		for n < b.cfg.Lookups && time.Now().Before(end) && err == nil {
			some := w.next(together)
			var spent []time.Duration
			if spent, err = b.ask(ctx, w, some); err == nil {
				took, n = append(took, spent...), n+len(some)
			}
		}
		return n, err
	})
	slices.Sort(took)
	if len(took) > 0 {
		cost.Median, cost.Most = milliseconds(took[len(took)/2]), milliseconds(took[len(took)-1])
	}
	return cost, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *ledgerBench) ask(ctx context.Context, w way, some []int) ([]time.Duration, error) {
	refs := make([]report.Ref, len(some))
	distinct := map[int]bool{}
	for i, n := range some {
		refs[i] = ref(n)
		distinct[n] = true
	}
	if w.alone {
		return b.askAlone(ctx, w, refs)
	}
	began := time.Now()
	found, err := b.ledger.LookupMany(ctx, refs)
	want := 0
	if w.known {
		want = len(distinct)
	}
	if err == nil && len(found) != want {
		err = fmt.Errorf("%d of %d entries were found", len(found), want)
	}
	return []time.Duration{time.Since(began)}, err
}

func (b *ledgerBench) askAlone(ctx context.Context, w way, refs []report.Ref) ([]time.Duration, error) {
	took := make([]time.Duration, len(refs))
	errs := make([]error, len(refs))
	var next atomic.Int64
	var all sync.WaitGroup
	for range alone {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(refs) {
					return
				}
				began := time.Now()
				_, err := b.ledger.Lookup(ctx, refs[i].Site, refs[i].Key)
				if took[i] = time.Since(began); !w.known && errors.Is(err, keyvalue.ErrNotFound) {
					err = nil
				}
				errs[i] = err
			}
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}
