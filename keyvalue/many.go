package keyvalue

import (
	"context"
	"fmt"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// LookupMany asks any replica for the entries of many reports, at most 500 in a request (see [portion]). As with [Ledger.Lookup] a found entry may decide
// and a missing one must not; what is stored but unreadable is missing too. All entries are held in memory, each up to 64 KiB
// and more: give it some hundred reports at a time.
func (l *Ledger) LookupMany(ctx context.Context, refs []report.Ref) (map[report.Key]Entry, error) {
	found := make(map[report.Key]Entry, len(refs))
	for total := len(refs); len(refs) > 0; {
		n := min(len(refs), l.portion.size())
		began := time.Now()
		err := l.lookup(ctx, refs[:n], found)
		l.portion.took(n, time.Since(began))
		if err != nil {
			return nil, fmt.Errorf("ledger: look up %d reports: %w", total, err)
		}
		refs = refs[n:]
	}
	return found, nil
}

// lookup asks once.
func (l *Ledger) lookup(ctx context.Context, refs []report.Ref, found map[report.Key]Entry) error {
	subjects := make([]string, len(refs))
	asked := make(map[string]report.Key, len(refs))
	for i, r := range refs {
		subjects[i] = "$KV." + ledgerBucket + "." + entryKey(r.Site, r.Key)
		asked[subjects[i]] = r.Key
	}
	for m, err := range jsapi.Lasts(ctx, l.js, ledgerStream, subjects) {
		if err != nil {
			return err
		}
		if e, err := readEntry(m.Data, m.Sequence); err == nil && e.State != "" {
			if key, ok := asked[m.Subject]; ok {
				found[key] = e
			}
		}
	}
	return nil
}
