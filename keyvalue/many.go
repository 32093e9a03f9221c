package keyvalue

import (
	"context"
	"fmt"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// LookupMany asks any replica for the entries of many reports, at most 128 in a request. As with [Ledger.Lookup] a found entry may decide
// and a missing one must not; what is stored but unreadable is missing too. All entries are held in memory, each up to 64 KiB
// and more: give it some hundred reports at a time.
func (l *Ledger) LookupMany(ctx context.Context, refs []report.Ref) (map[report.Key]Entry, error) {
	answers, err := l.Answers(ctx, refs)
	if err != nil {
		return nil, err
	}
	found := make(map[report.Key]Entry, len(answers))
	for key, a := range answers {
		if a.Err == nil && a.State != "" {
			found[key] = a.Entry
		}
	}
	return found, nil
}

// Answer is what the ledger holds for a report. Without a state it is the marker of a deletion.
type Answer struct {
	Entry
	Err error // ErrUnreadable: it is not an entry
}

// Answers is [Ledger.LookupMany] with everything that the ledger holds.
func (l *Ledger) Answers(ctx context.Context, refs []report.Ref) (map[report.Key]Answer, error) {
	found := map[report.Key]Answer{}
	for total := len(refs); len(refs) > 0; {
		n := min(len(refs), l.portion.size())
		began := time.Now()
		err := l.answers(ctx, refs[:n], found)
		l.portion.took(n, time.Since(began))
		if err != nil && ctx.Err() == nil && l.portion.size() < n { // it took too long
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: look up %d reports: %w", total, err)
		}
		refs = refs[n:]
	}
	return found, nil
}

// answers asks once.
func (l *Ledger) answers(ctx context.Context, refs []report.Ref, found map[report.Key]Answer) error {
	subjects := make([]string, len(refs))
	for i, r := range refs {
		subjects[i] = ledgerSubject(r.Site, r.Key)
	}
	var asked map[string]report.Key // made when something is found: mostly, nothing is
	for m, err := range jsapi.Lasts(ctx, l.js, ledgerStream, subjects) {
		if err != nil {
			return err
		}
		if asked == nil {
			asked = make(map[string]report.Key, len(refs))
			for i, r := range refs {
				asked[subjects[i]] = r.Key
			}
		}
		if key, ok := asked[m.Subject]; ok {
			e, err := readEntry(m.Data, m.Sequence)
			found[key] = Answer{e, err}
		}
	}
	return nil
}
