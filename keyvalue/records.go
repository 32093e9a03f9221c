package keyvalue

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// LedgerStream is the stream under the ledger's bucket.
const LedgerStream = ledgerStream

// Record is what the ledger holds under one of its keys, whether or not it is an entry of ours.
type Record struct {
	Site     report.Token // of the bucket's key, <site>.<key>
	Key      report.Key
	Revision uint64
	Stored   time.Time // by the server's clock
	Entry    Entry     // zero, but for its revision, for the marker of a deletion
	Problem  error     // [ErrUnreadable]
}

// Records yields everything that the ledger holds when it begins, in the order of revisions. What is overwritten while it runs may be
// missing: its new revision is younger than the beginning.
func (l *Ledger) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for m, err := range jsapi.Scan(ctx, l.js, ledgerStream, "$KV."+ledgerBucket+".>", false) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			r := Record{Revision: m.Sequence, Stored: m.Time}
			site, key, _ := strings.Cut(strings.TrimPrefix(m.Subject, "$KV."+ledgerBucket+"."), ".")
			r.Site, r.Key = report.Token(site), report.Key(key)
			r.Entry, r.Problem = readEntry(m.Data, m.Sequence)
			if !yield(r, nil) {
				return
			}
		}
	}
}
