// Package invariant checks the promise: every report that was handed over has exactly one fate. It reads the streams
// itself, from outside, and is imported by _test.go files only.
package invariant

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Tally is how many reports have each fate.
type Tally struct{ Done, Waiting, Dead, Discarded int }

// Check fails the test unless each published report has exactly one fate, each done one has one entry that its key names,
// each letter's hash, payload and death verify, and the letters and ledger hold no report that was not published.
// It returns the tally. Parked and queued reports count as waiting.
func Check(t testing.TB, js jetstream.JetStream, published ...report.Key) Tally {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	queues, trail := stream.New(js, stream.Config{}), audit.New(js)
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		t.Fatalf("invariant: %v", err)
	}
	letters := dlq.New(js, queues, ledger, trail, dlq.DefaultReplayMax)

	known := map[report.Key]bool{}
	for _, k := range published {
		known[k] = true
	}
	done, waiting, dead := map[report.Key]int{}, map[report.Key]int{}, map[report.Key]int{}
	note := func(where string, in map[report.Key]int, k report.Key) {
		if in[k]++; !known[k] {
			t.Errorf("invariant: %s holds %s, which was not published", where, k.Short())
		}
	}
	for _, name := range stream.Names() {
		for seq := uint64(1); ; {
			raw, err := jsapi.Next(ctx, js, name, "reports.>", seq)
			if errors.Is(err, jsapi.ErrNotFound) {
				break
			}
			if err != nil {
				t.Fatalf("invariant: %v", err)
			}
			note(name, waiting, stream.ReadStored(name, raw).Key)
			seq = raw.Sequence + 1
		}
	}
	for f, err := range letters.Verify(ctx) {
		if err != nil {
			t.Fatalf("invariant: %v", err)
		}
		if f.Problem != "" {
			t.Errorf("invariant: letter of %s: %s", f.Letter.Key.Short(), f.Problem)
		}
		note(dlq.Stream, dead, f.Letter.Key)
	}
	for e, err := range ledger.All(ctx, "*") {
		if err != nil {
			t.Fatalf("invariant: %v", err)
		}
		switch {
		case e.State == keyvalue.Done:
			note("the ledger", done, e.Key())
		case e.State == keyvalue.Reopened && waiting[e.Key()]+dead[e.Key()] == 0: // reprocess was cut short
			if _, err := trail.Discarded(ctx, "*", e.Key()); errors.Is(err, audit.ErrNotFound) {
				note("the ledger", waiting, e.Key())
			}
		}
	}
	var tally Tally
	for k := range known {
		discarded := 0
		if _, err := trail.Discarded(ctx, "*", k); err == nil && done[k]+waiting[k]+dead[k] == 0 {
			discarded = 1
		}
		if n := done[k] + waiting[k] + dead[k] + discarded; n != 1 {
			t.Errorf("invariant: report %s has %d fates: %d done, %d waiting, %d dead, %d discarded", k.Short(), n, done[k], waiting[k], dead[k], discarded)
		}
		tally.Done += done[k]
		tally.Waiting += waiting[k]
		tally.Dead += dead[k]
		tally.Discarded += discarded
	}
	return tally
}
