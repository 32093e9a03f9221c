package main

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// The whole command on a list of 100,000 rows, with the embedded store as it is by default: of ten reports six are done, two wait,
// one is dead and one was never handed over.
//
//	go test ./cmd/guyline -run - -bench Reconcile -benchtime 3x
func BenchmarkReconcile(b *testing.B) {
	for _, fates := range []string{"ddddddww+?", "??????????", "wwwwwwwwww", "++++++++++"} {
		b.Run(fates, func(b *testing.B) {
			dir, list := b.TempDir(), filepath.Join(b.TempDir(), "list.csv")
			stock(b, dir, list, fates, 100_000)
			b.Setenv("GUYLINE_DATA_DIR", dir)
			for b.Loop() {
				var stdout, stderr bytes.Buffer
				code := run(b.Context(), []string{"reconcile", list}, strings.NewReader(""), &stdout, &stderr, nil)
				if code != exitPerson || !strings.Contains(stdout.String(), "100,000 reports") {
					b.Fatalf("exit %d\n%s%s", code, stdout.String(), stderr.String())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/run")
		})
	}
}

// stock makes a store with n reports, and their list. The letters of fates say, in turn, what a report is: done, waiting,
// + dead, ? unknown.
func stock(tb testing.TB, dir, list, fates string, n int) {
	tb.Helper()
	ctx := tb.Context()
	store, err := embedded.Open(ctx, embedded.Config{Dir: dir, Create: true, LazySync: true})
	check(tb, err)
	defer store.Close()
	nc, err := store.Connect()
	check(tb, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	check(tb, err)
	cfg := consumer.DefaultConfig().Queues
	check(tb, consumer.Setup(ctx, js, cfg))
	ledger, err := keyvalue.OpenLedger(ctx, js)
	check(tb, err)
	letters := dlq.New(js, stream.New(js, cfg), ledger, audit.New(js), dlq.DefaultReplayMax)

	var text bytes.Buffer
	fmt.Fprintln(&text, "site_id,source_uri,due")
	rows := make([]report.Row, n)
	for i := range rows {
		e := report.Event{SiteID: fmt.Sprintf("TWR-%d", i%700), SourceURI: fmt.Sprintf("s3://reports/%d_q2.pdf", i)}
		rows[i] = report.Row{Line: i + 2, Event: e, Body: fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI)}
		fmt.Fprintf(&text, "%s,%s,2026-12-01\n", e.SiteID, e.SourceURI)
	}
	check(tb, os.WriteFile(list, text.Bytes(), 0o600))
	of := func(want byte) iter.Seq[report.Row] {
		return func(yield func(report.Row) bool) {
			for i, row := range rows {
				if fates[i%len(fates)] == want && !yield(row) {
					return
				}
			}
		}
	}
	for r := range stream.PublishAll(ctx, js, of('w'), nil) {
		check(tb, r.Err)
	}
	at := time.Now().UTC()
	inParallel(of('d'), func(row report.Row) {
		_, err := ledger.Commit(ctx, keyvalue.Entry{
			State: keyvalue.Done, SiteID: row.Event.SiteID, SourceURI: row.Event.SourceURI, Result: report.Result(`{"pages":12}`), Attempts: 1, Time: at,
		})
		check(tb, err)
	})
	inParallel(of('+'), func(row report.Row) {
		reason := "extract " + row.Event.SourceURI + ": no such object"
		_, err := letters.Put(ctx, dlq.Letter{
			Key: row.Event.Key(), Site: report.NewToken(row.Event.SiteID), Class: report.ClassPoison, Code: report.CodeNotFound, Reason: reason,
			Hash: report.AuditHash(row.Event.Key(), reason), Attempts: 1, PublishedAt: at, FailedAt: at, Body: row.Body,
		}, 0)
		check(tb, err)
	})
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

func inParallel(rows iter.Seq[report.Row], do func(report.Row)) {
	work := make(chan report.Row)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for row := range work {
				do(row)
			}
		})
	}
	for row := range rows {
		work <- row
	}
	close(work)
	all.Wait()
}
