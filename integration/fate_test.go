package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// wantFate checks what is said of a report, by its site and by its key alone, and twice: with nothing in between it
// stays the same.
func (w *world) wantFate(site string, key report.Key, want fate.Fate) fate.Answer {
	w.Helper()
	a, err := w.finder.Of(w.Context(), report.NewToken(site), key)
	w.must(err)
	if b := w.fate(key); a.Fate != want || b.Fate != want || a.Key != key {
		w.Errorf("%s %s is %s, by its key alone %s; want %s", site, key.Short(), a.Fate, b.Fate, want)
	}
	if holds := map[fate.Fate]bool{
		fate.Done: a.Entry != nil, fate.Waiting: a.Message != nil, fate.Dead: a.Letter != nil, fate.Discarded: a.Discarded != nil, fate.Unknown: true,
	}; !holds[a.Fate] {
		w.Errorf("%s rests on nothing: %+v", a.Fate, a)
	}
	return a
}

// park schedules a report for later, as an outage of its upstream will.
func (w *world) park(site, uri string, at time.Time) report.Key {
	w.Helper()
	key := w.record(body(site, uri))
	tail := string(report.NewToken(site)) + "." + string(key)
	msg := &nats.Msg{Subject: "reports.parked." + tail, Data: body(site, uri), Header: nats.Header{"Guyline-Attempts": {"1"}, "X-Firm": {"Acme"}}}
	_, err := w.js.PublishMsg(w.Context(), msg, jetstream.WithScheduleAt(at), jetstream.WithScheduleTarget("reports.requeued."+tail))
	w.must(err)
	return key
}

// One report in every place, and what is said of each.
func TestFates(t *testing.T) {
	t.Parallel()
	inWork, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if e.SourceURI == "in work" {
			close(inWork)
			<-release
		}
		return poisonOf(ctx, e, run)
	})
	const site = "NY 12.4"
	never := report.NewKey(site, "never")
	w.wantFate(site, never, fate.Unknown)
	key := w.publish(site, "in work")
	w.wantFate(site, key, fate.Waiting)
	done := w.publish(site, "done")
	dead := w.publish("BAD", "dead")
	discarded := w.publish("BAD", "discarded")
	garbled := w.raw("BAD", nil, []byte("?"))
	worker := w.work()
	<-inWork
	natstest.Eventually(t, "all others to be settled", func() bool { return w.stored() == 1 })
	if a := w.wantFate(site, key, fate.Waiting); a.Parked || a.Message.Ref.Stream != stream.Reports {
		t.Errorf("in work: %+v", a.Message)
	}
	if outcome, err := w.letters.Discard(t.Context(), w.letter(discarded).Sequence, operator); err != nil || outcome != dlq.Discarded {
		t.Fatalf("discard: %s, %v", outcome, err)
	}
	parked := w.park(site, "parked", time.Now().Add(time.Hour))
	wantCounts(w, fate.Counts{InWork: 1, Parked: 1, Done: 1, Dead: map[report.Class]uint64{report.ClassPoison: 2}})
	close(release)
	w.drain()
	worker.stop()
	queued := w.publish(site, "queued")
	requeued := w.requeue(site, "requeued", stream.Carried{PublishedAt: time.Now()})
	for _, tt := range []struct {
		site string
		key  report.Key
		want fate.Fate
	}{
		{site, key, fate.Done}, {site, done, fate.Done}, {"BAD", dead, fate.Dead}, {"BAD", discarded, fate.Discarded}, {"", garbled, fate.Dead},
		{site, queued, fate.Waiting}, {site, requeued, fate.Waiting}, {site, parked, fate.Waiting}, {site, never, fate.Unknown},
	} {
		if a := w.wantFate(tt.site, tt.key, tt.want); a.Parked != (tt.key == parked) {
			t.Errorf("%s: parked is %v", tt.key.Short(), a.Parked)
		}
	}
	wantCounts(w, fate.Counts{Waiting: 2, Parked: 1, Done: 2, Dead: map[report.Class]uint64{report.ClassPoison: 2}})
	w.ends(invariant.Tally{Done: 2, Waiting: 3, Dead: 2, Discarded: 1})
}

func wantCounts(w *world, want fate.Counts) {
	w.Helper()
	got, err := w.finder.Count(w.Context())
	w.must(err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(fate.Counts{}, "Oldest", "Pulling")); diff != "" {
		w.Errorf("counts (-want +got):\n%s", diff)
	}
}

// A report has a fate at every moment of its way, however often one looks.
func TestNeverUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		switch {
		case run%2 == 1:
			return nil, report.Transient(report.CodeTimeout, errors.New("slow"))
		case run < 20:
			return nil, report.Poison(report.CodeNotFound, fmt.Errorf("failure %d", run))
		}
		return nil, nil
	})
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	ended := make(chan struct{})
	seen := map[fate.Fate]int{}
	go func() {
		defer close(ended)
		for seen[fate.Done] == 0 && seen[fate.Unknown] == 0 {
			a, err := w.finder.Of(context.Background(), "TWR-1", key)
			if err != nil {
				t.Error(err)
				return
			}
			seen[a.Fate]++
		}
	}()
	w.work()
	w.work()
	for l := w.dies(key, 0); ; {
		w.replay(l, dlq.Replayed)
		next, landed := l, false
		natstest.Eventually(t, "the replayed report to be dead or done", func() bool {
			e, err := w.ledger.LookupLeader(t.Context(), "TWR-1", key)
			if landed = err == nil && e.Revision > 0; landed {
				return true
			}
			next, err = w.letters.Current(t.Context(), "TWR-1", key)
			return err == nil && next.Sequence != l.Sequence
		})
		if landed {
			break
		}
		l = next
	}
	natstest.Eventually(t, "the looks to end", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if seen[fate.Unknown] > 0 {
		t.Errorf("the report was unknown once; seen: %v", seen)
	}
	w.drain()
	w.ends(invariant.Tally{Done: 1})
}

// A parked report comes back when its time is there, with what it carried.
func TestParkedReportComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(context.Context, report.Event, int) (report.Result, error) {
		return nil, report.Transient(report.CodeTimeout, errors.New("slow"))
	})
	key := w.park("TWR-1", "s3://reports/a.pdf", time.Now().Add(time.Second))
	w.work()
	l := w.dies(key, 0)
	w.wantDeath(l, death{report.ClassExhausted, report.CodeTimeout, "exhausted 4 attempts: slow", 4, 0})
	w.wantRuns(key, 3) // one attempt was spent before
	if diff := cmp.Diff(nats.Header{"X-Firm": {"Acme"}}, l.Foreign); diff != "" {
		t.Errorf("the publisher's headers in the letter (-want +got):\n%s", diff)
	}
	w.ends(invariant.Tally{Dead: 1})
}
