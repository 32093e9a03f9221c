package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// shortWindow makes the queue forget a Nats-Msg-Id soon.
func shortWindow(cfg *consumer.Config) { cfg.Queues.Duplicates = 100 * time.Millisecond }

// publishAgain hands a report over until the queue has forgotten that it had it.
func (w *world) publishAgain(site, uri string) {
	w.Helper()
	e := report.Event{SiteID: site, SourceURI: uri}
	natstest.Eventually(w, "the duplicate window to close", func() bool {
		duplicate, err := stream.Publish(w.Context(), w.js, e, body(site, uri))
		w.must(err)
		return !duplicate
	})
}

func TestPublishedTwiceInsideTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	e := report.Event{SiteID: "TWR-1", SourceURI: "s3://reports/twice.pdf"}
	key := w.publish(e.SiteID, e.SourceURI)
	again := func(when string) {
		t.Helper()
		if duplicate, err := stream.Publish(t.Context(), w.js, e, body(e.SiteID, e.SourceURI)); err != nil || !duplicate {
			t.Errorf("published again %s: duplicate %v, %v; want true", when, duplicate, err)
		}
	}
	again("while it waits")
	if n := w.stored(); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
	w.work()
	w.drain()
	again("when it is done")
	if n := w.stored(); n != 0 {
		t.Errorf("%d messages are stored, want none", n)
	}
	w.stop()
	w.wantRuns(key, 1)
	w.ends(invariant.Tally{Done: 1})
}

func TestPublishedTwiceOutsideTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		return report.NewResult(map[string]int{"run": run})
	}, shortWindow)
	key := w.publish("TWR-1", "s3://reports/late.pdf")
	w.work()
	w.drain()
	first := w.entry(key)

	w.publishAgain("TWR-1", "s3://reports/late.pdf")
	w.drain()
	w.raw("TWR-1", nil, body("TWR-1", "s3://reports/late.pdf")) // a publisher without Nats-Msg-Id
	w.drain()
	w.stop()
	w.wantRuns(key, 1)
	if diff := cmp.Diff([]consumer.Kind{consumer.Succeeded, consumer.Duplicate, consumer.Duplicate}, w.settled(key)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, w.entry(key)); diff != "" {
		t.Errorf("the ledger's entry has changed:\n%s", diff)
	}
	w.ends(invariant.Tally{Done: 1})
}

// Two workers have the same report in hand at the same moment, and both do the work.
func TestTwoWorkersOneReport(t *testing.T) {
	t.Parallel()
	const pairs = 10
	var (
		mu   sync.Mutex
		both = map[string]chan struct{}{} // closed when the second run of a report has begun
	)
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		mu.Lock()
		meet, ok := both[e.SourceURI]
		if !ok {
			meet = make(chan struct{})
			both[e.SourceURI] = meet
		}
		if run == 2 {
			close(meet)
		}
		mu.Unlock()
		select {
		case <-meet:
			return report.NewResult(map[string]int{"run": run})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, func(cfg *consumer.Config) { cfg.Workers = 1 })
	var keys []report.Key
	for i := range pairs {
		uri := fmt.Sprintf("s3://reports/pair-%d.pdf", i)
		keys = append(keys, w.publish("TWR-1", uri))
		w.raw("TWR-1", nil, body("TWR-1", uri))
	}
	w.work()
	w.work()
	w.drain()
	w.stop()
	for _, key := range keys {
		w.wantRuns(key, 2)
		if got := string(w.entry(key).Result); got != `{"run":1}` && got != `{"run":2}` {
			t.Errorf("the result is %s", got)
		}
		got := w.settled(key)
		slices.Sort(got)
		if diff := cmp.Diff([]consumer.Kind{consumer.Duplicate, consumer.Succeeded}, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	}
	if n := w.commits(); n != pairs {
		t.Errorf("the ledger took %d writes, want %d", n, pairs)
	}
	w.ends(invariant.Tally{Done: pairs})
}

// A portal publishes its whole list every night, also the reports that are dead.
func TestNightlyRepublicationOfTheDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		return nil, report.Poison(report.CodeMalformedPDF, fmt.Errorf("night %d: no trailer", run))
	}, shortWindow)
	key := w.publish("TWR-1", "s3://reports/nightly.pdf")
	w.work()
	first := w.dies(key, 0)
	w.replay(first, dlq.Replayed)
	second := w.dies(key, first.Sequence)
	w.wantDeath(second, death{report.ClassPoison, report.CodeMalformedPDF, "night 2: no trailer", 1, 1})

	w.publishAgain("TWR-1", "s3://reports/nightly.pdf")
	third := w.dies(key, second.Sequence)
	w.wantDeath(third, death{report.ClassPoison, report.CodeMalformedPDF, "night 3: no trailer", 1, 1})
	if !third.FirstFailedAt.Equal(first.FirstFailedAt) {
		t.Errorf("first failed at %v, want %v as the first letter says", third.FirstFailedAt, first.FirstFailedAt)
	}
	if !third.FailedAt.After(second.FailedAt) || !third.PublishedAt.After(second.PublishedAt) || third.Source.Stream != stream.Reports {
		t.Errorf("the letter is not about the new publication: %+v", third.Source)
	}
	w.wantRuns(key, 3)
	w.ends(invariant.Tally{Dead: 1})
}

// A dead report is published again and succeeds: its letter is closed.
func TestRepublicationOfTheDeadThatSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		if run == 1 {
			return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
		}
		return nil, nil
	})
	key := w.publish("TWR-1", "s3://reports/found.pdf")
	w.work()
	w.dies(key, 0)
	w.raw("TWR-1", nats.Header{"X-Firm": {"Acme"}}, body("TWR-1", "s3://reports/found.pdf"))
	w.lands(key)
	w.noLetter(key)
	w.drain()
	w.wantRuns(key, 2)
	if got := w.events(key, "recovered"); len(got) != 1 {
		t.Errorf("the trail has %d recovered events, want 1", len(got))
	}
	w.ends(invariant.Tally{Done: 1})
}
