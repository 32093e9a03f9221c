package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// A list is reconciled over and over while its reports are worked, die, and are replayed. None is ever unknown.
func TestReconcileWhileReportsMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		switch n := len(e.SourceURI) + int(e.SourceURI[len(e.SourceURI)-1]); {
		case n%3 == 0 && run == 1:
			return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
		case n%3 == 1 && run == 1:
			return nil, report.Transient(report.CodeTimeout, errors.New("slow"))
		}
		return nil, nil
	}, func(cfg *consumer.Config) { cfg.Workers = 16 })
	const reports = 2000
	var refs []report.Ref
	for i := range reports {
		site, uri := fmt.Sprintf("TWR-%d", i%50), fmt.Sprintf("s3://reports/%d", i)
		refs = append(refs, refOf(site, uri))
		_, err := w.js.PublishMsgAsync(&nats.Msg{Subject: "reports.submitted." + site, Data: w.noted(body(site, uri))})
		w.must(err)
	}
	<-w.js.PublishAsyncComplete()
	var stopper *worker
	begin := func(what string, n int) { // between the first look and the second
		if stopper != nil || what != "reading the ledger" || n < reports {
			return
		}
		w.work()
		stopper = w.work()
		natstest.Eventually(t, "the first reports to be done", func() bool {
			n, err := w.ledger.Len(t.Context())
			return err == nil && n > 10
		})
	}
	seen := map[fate.Fate]int{}
	moved, rounds := 0, 0
	for counts := map[fate.Fate]int{}; counts[fate.Done] < reports; rounds++ {
		if rounds > 5000 {
			t.Fatalf("after %d rounds: %v", rounds, counts)
		}
		if rounds == 1 { // what it has in work is handed back
			stopper.stop()
			w.work()
		}
		clear(counts)
		out := w.reconcile(refs, begin)
		for i, s := range out.Standings {
			counts[s.Fate]++
			seen[s.Fate]++
			if s.Fate == fate.Unknown {
				t.Fatalf("round %d: %v is unknown", rounds, refs[i])
			}
		}
		moved += out.Moved
		for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
			w.must(err)
			if _, err := w.letters.Replay(t.Context(), l.Sequence, operator); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d rounds; %v; %d moved", rounds, seen, moved)
	if moved == 0 {
		t.Errorf("nothing was in motion; seen: %v", seen)
	}
	w.drain()
	w.ends(invariant.Tally{Done: reports})
}

// noted notes a payload as published and returns it.
func (w *world) noted(payload []byte) []byte {
	w.record(payload)
	return payload
}

func TestReconcileCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	refs := []report.Ref{refOf("TWR-1", "a"), refOf("TWR-1", "b")}
	w.publish("TWR-1", "a")
	for _, at := range []string{"reading the queues", "reading the ledger", "looking again"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.finder.Reconcile(ctx, refs, func(what string, n, _ int) {
			if what == at && n == 1 || what == at && what == "reading the ledger" {
				cancel()
			}
		})
		if cancel(); at != "looking again" && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while %s: %v", at, err)
		}
	}
	w.srv.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := w.finder.Reconcile(ctx, refs, func(string, int, int) {}); err == nil {
		t.Error("without a server there is an answer")
	}
	w.srv.Restart(t)
	natstest.Eventually(t, "an answer again", func() bool {
		out, err := w.finder.Reconcile(t.Context(), refs, func(string, int, int) {})
		return err == nil && out.Standings[0].Fate == fate.Waiting
	})
	w.ends(invariant.Tally{Waiting: 1})
}
