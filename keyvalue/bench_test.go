package keyvalue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// BenchmarkCommit commits new entries, so many at once. A synced server writes each to the disk at once; grouped, one sync serves many.
func BenchmarkCommit(b *testing.B) {
	for _, server := range []struct {
		name    string
		start   func(testing.TB) *natstest.Server
		grouped bool
	}{{"buffered", natstest.Start, false}, {"synced", natstest.StartSynced, false}, {"synced and grouped", natstest.StartSynced, true}} {
		for _, atOnce := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("%s/%d", server.name, atOnce), func(b *testing.B) {
				l := benchLedger(b, server.start(b), server.grouped)
				atOnce := make(chan struct{}, atOnce)
				var n atomic.Int64
				var open sync.WaitGroup
				b.ReportAllocs()
				for b.Loop() {
					atOnce <- struct{}{}
					open.Add(1)
					e := entry("TWR-8842", fmt.Sprint(n.Add(1), ".pdf"))
					l.StartCommit(report.Ref{Site: report.NewToken(e.SiteID), Key: e.Key()}, e, func(_ uint64, err error) {
						if err != nil {
							b.Error(err)
						}
						<-atOnce
						open.Done()
					})
				}
				b.StartTimer() // Loop has stopped it, and the last commits belong to the count
				open.Wait()
			})
		}
	}
}

// BenchmarkLookup looks up entries of a ledger of 10,000: one with a request of its own, or many in one request, of which the ledger has none
// or all.
func BenchmarkLookup(b *testing.B) {
	const entries, together = 10_000, 128
	l := benchLedger(b, natstest.Start(b), false)
	var open sync.WaitGroup
	refs := make([]report.Ref, entries)
	for i := range refs {
		e := entry("TWR-8842", fmt.Sprint(i, ".pdf"))
		refs[i] = report.Ref{Site: report.NewToken(e.SiteID), Key: e.Key()}
		open.Add(1)
		l.StartCommit(report.Ref{Site: report.NewToken(e.SiteID), Key: e.Key()}, e, func(_ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
			open.Done()
		})
	}
	open.Wait()
	unknown := make([]report.Ref, entries)
	for i := range unknown {
		unknown[i] = report.Ref{Site: "TWR-8842", Key: report.NewKey("TWR-8842", fmt.Sprint("unknown", i))}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			r := refs[i%entries]
			if _, err := l.Lookup(context.Background(), r.Site, r.Key); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, kind := range []struct {
		name  string
		refs  []report.Ref
		found int
	}{{"unknown", unknown, 0}, {"known", refs, together}} {
		b.Run(fmt.Sprint(together, " ", kind.name), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				at := i * together % (entries - together)
				got, err := l.Answers(context.Background(), kind.refs[at:at+together])
				if err != nil || len(got) != kind.found {
					b.Fatalf("%d answers, %v", len(got), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*together), "ns/report")
		})
	}
}

func benchLedger(b *testing.B, srv *natstest.Server, grouped bool) *keyvalue.Ledger {
	b.Helper()
	js := srv.JetStream(b)
	if err := keyvalue.Setup(b.Context(), js, 1); err != nil {
		b.Fatal(err)
	}
	l, err := keyvalue.OpenLedger(b.Context(), js)
	if err != nil {
		b.Fatal(err)
	}
	if grouped {
		if err := l.Group(); err != nil {
			b.Fatal(err)
		}
	}
	return l
}
