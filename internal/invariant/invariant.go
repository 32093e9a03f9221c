// Package invariant checks the promise: every report that was handed over has exactly one fate. It reads the streams
// itself, from outside, and is imported by _test.go files only.
package invariant

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/books"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// Tally is how many reports have each fate.
type Tally struct{ Done, Waiting, Dead, Discarded int }

// Check fails the test unless each published report has exactly one fate, each done one has one entry that its key names,
// each letter's hash, payload and death verify, and the letters and ledger hold no report that was not published.
// It returns the tally. Parked and queued reports count as waiting.
func Check(t testing.TB, js jetstream.JetStream, published ...report.Key) Tally {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var b *books.Books
	var err error
	natstest.Eventually(t, "the servers to answer", func() bool { // a cluster may be between two leaders
		b, err = books.Read(ctx, js)
		e, refused := errors.AsType[*jetstream.APIError](err)
		return !refused || e.Code != 503 || ctx.Err() != nil
	})
	if err != nil {
		t.Fatalf("invariant: %v", err)
	}
	known := map[report.Key]bool{}
	for _, k := range published {
		known[k] = true
	}
	for k, problems := range b.Problems {
		for _, p := range problems {
			t.Errorf("invariant: report %s: %s", k.Short(), p)
		}
	}
	for k, where := range b.Strangers(known) {
		t.Errorf("invariant: %s holds %s, which was not published", where, k.Short())
	}
	var tally Tally
	for k := range known {
		f := b.Of(k)
		if n := f.Sum(); n != 1 {
			t.Errorf("invariant: report %s has %d fates: %d done, %d waiting, %d dead, %d discarded", k.Short(), n, f.Done, f.Waiting, f.Dead, f.Discarded)
		}
		tally.Done += f.Done
		tally.Waiting += f.Waiting
		tally.Dead += f.Dead
		tally.Discarded += f.Discarded
	}
	return tally
}
