package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Reports that wait for their retry fill MaxAckPending while fresh ones arrive. Nothing deadlocks.
func TestMaxAckPendingFull(t *testing.T) {
	t.Parallel()
	const failing, fresh, most = 30, 10, 8
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SiteID == "SLOW" && run <= 2 {
			return nil, report.Transient(report.CodeTimeout, errors.New("not yet"))
		}
		return nil, nil
	}, func(cfg *consumer.Config) {
		cfg.Queues.MaxAckPending = most
		cfg.Backoff = report.Backoff{Base: 100 * time.Millisecond, Max: 100 * time.Millisecond}
	})
	var slow, quick []report.Key
	for i := range failing {
		slow = append(slow, w.publish("SLOW", fmt.Sprint("s3://reports/", i, ".pdf")))
	}
	w.work()
	natstest.Eventually(t, "the server to give out no more", func() bool { return w.queue(stream.Reports).InWork == most })
	for i := range fresh {
		quick = append(quick, w.publish("TWR-1", fmt.Sprint("s3://reports/", i, ".pdf")))
	}
	w.drain()
	for _, key := range slow {
		w.wantRuns(key, 3)
	}
	for _, key := range quick {
		w.wantRuns(key, 1)
	}
	w.ends(invariant.Tally{Done: failing + fresh})
}

// requeue puts a report into the second queue, as a replay or a stopping worker does.
func (w *world) requeue(site, uri string, c stream.Carried) report.Key {
	w.Helper()
	key := w.record(body(site, uri))
	w.must(w.queues.Requeue(w.Context(), report.NewToken(site), key, nil, body(site, uri), c, 0))
	return key
}

// A backlog in one queue does not hold up a report in the other, however few workers there are.
func TestFairness(t *testing.T) {
	t.Parallel()
	for workers, backlog := range map[int]int{1: 500, 4: 200} {
		for _, queue := range stream.Names() {
			t.Run(fmt.Sprintf("%d workers, %d in %s", workers, backlog, queue), func(t *testing.T) {
				t.Parallel()
				var w *world
				var late report.Key
				put := map[string]func(uri string) report.Key{
					stream.Reports:  func(uri string) report.Key { return w.publish("TWR-1", uri) },
					stream.Requeued: func(uri string) report.Key { return w.requeue("TWR-1", uri, stream.Carried{PublishedAt: time.Now()}) },
				}
				other := stream.Reports
				if queue == other {
					other = stream.Requeued
				}
				half := make(chan struct{})
				arrived := make(chan struct{})
				w = newWorld(t, func(ctx context.Context, e report.Event, _ int) (report.Result, error) {
					if e.SourceURI == fmt.Sprint(backlog/2) { // the other report arrives under the backlog
						close(half)
					}
					select {
					case <-half: // nobody goes on without it
						select {
						case <-arrived:
						case <-ctx.Done():
						}
					default:
					}
					return nil, nil
				}, func(cfg *consumer.Config) { cfg.Workers = workers })
				for i := range backlog {
					put[queue](fmt.Sprint(i))
				}
				early := put[other]("early")
				w.work()
				<-half
				late = put[other]("late")
				close(arrived)
				w.drain()
				w.mu.Lock()
				order := slices.Clone(w.order)
				w.mu.Unlock()
				if at := slices.Index(order, early); at < 0 || at > backlog/2 {
					t.Errorf("the one report was worked as number %d of %d", at+1, len(order))
				}
				if at := slices.Index(order, late); at < 0 || at > len(order)-backlog/8 {
					t.Errorf("the one that came under the backlog was worked as number %d of %d", at+1, len(order))
				}
				w.ends(invariant.Tally{Done: backlog + 2})
			})
		}
	}
}
