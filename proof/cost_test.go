package proof

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// What the trail costs: dead-lettering the same number of reports with and without recording the deaths, in turns on one server.
// The ratio is how many times as long it takes with the trail.
func BenchmarkDeadLettering(b *testing.B) {
	b.Run("10000 reports, written to the operating system", func(b *testing.B) {
		deadLetter(b, natstest.Start(b).JetStream(b), 10_000)
	})
	b.Run("2000 reports, fsync on every write", func(b *testing.B) {
		store, err := embedded.Open(b.Context(), embedded.Config{Dir: b.TempDir() + "/store", Create: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = store.Close() })
		nc, err := store.Connect()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			b.Fatal(err)
		}
		deadLetter(b, js, 2_000)
	})
}

func deadLetter(b *testing.B, js jetstream.JetStream, reports int) {
	ctx := context.Background()
	for _, err := range []error{keyvalue.Setup(ctx, js, 1), audit.Setup(ctx, js, 1), dlq.Setup(ctx, js, 1)} {
		if err != nil {
			b.Fatal(err)
		}
	}
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		b.Fatal(err)
	}
	letters := dlq.New(js, stream.New(js, stream.Config{}), ledger, audit.New(js), dlq.DefaultReplayMax)
	var on, off time.Duration
	round := 0
	for b.Loop() {
		for range 10 {
			off += timed(b, letters, &round, reports/10, false)
			on += timed(b, letters, &round, reports/10, true)
		}
	}
	n := float64(reports * b.N)
	b.ReportMetric(n/off.Seconds(), "off-reports/s")
	b.ReportMetric(n/on.Seconds(), "on-reports/s")
	b.ReportMetric(on.Seconds()/off.Seconds(), "times-as-long")
	b.ReportMetric(0, "ns/op")
}

// timed dead-letters so many reports from eight goroutines, as eight busy workers would.
func timed(b *testing.B, letters *dlq.Queue, round *int, reports int, recorded bool) time.Duration {
	*round++
	begun := time.Now()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := g; n < reports; n += 8 {
				if err := deadLetterOne(letters, fmt.Sprintf("s3://reports/%d/%d.pdf", *round, n), recorded); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(begun)
}

func deadLetterOne(letters *dlq.Queue, uri string, recorded bool) (err error) {
	key, reason, now := report.NewKey(site, uri), "unparseable structure in "+uri, time.Now().UTC()
	l := dlq.Letter{
		Key: key, Site: report.NewToken(site), Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: reason, Hash: report.AuditHash(key, reason),
		Attempts: 1, Subject: "reports.submitted.TWR=201", Source: stream.Ref{Stream: stream.Reports, Sequence: 1}, PublishedAt: now, FirstFailedAt: now, FailedAt: now,
		Upstream: "s3://reports", Worker: "host/4711", Version: "0.1.0", Body: fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, site, uri),
	}
	if l.Sequence, err = letters.Put(context.Background(), l, 0); err != nil || !recorded {
		return err
	}
	return letters.RecordDeath(context.Background(), l)
}
