package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// reconcile asks for these reports at once, and calls moment before each word on the progress.
func (w *world) reconcile(refs []report.Ref, moment func(what string, n int)) fate.Reconciliation {
	w.Helper()
	out, err := w.finder.Reconcile(w.Context(), refs, func(what string, n, total int) {
		if n > total && total != 0 {
			w.Errorf("%s: %d of %d", what, n, total)
		}
		if moment != nil {
			moment(what, n)
		}
	})
	w.must(err)
	if len(out.Standings) != len(refs) {
		w.Fatalf("%d standings for %d reports", len(out.Standings), len(refs))
	}
	return out
}

func refOf(site, uri string) report.Ref { return report.Event{SiteID: site, SourceURI: uri}.Ref() }

// One report in every place, read as a list, and each is said to be where it is when asked for alone.
func TestReconcileFates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if e.SourceURI == "exhausted" {
			return nil, report.Transient(report.CodeTimeout, errors.New("slow"))
		}
		return poisonOf(ctx, e, run)
	})
	due := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	withDue := func(site, uri string) []byte {
		return fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q,"due":"2026-12-01T00:00:00Z"}`, site, uri)
	}
	for _, uri := range []string{"done", "reopened", "exhausted"} {
		w.publish("TWR-1", uri)
	}
	for _, uri := range []string{"discarded", "repaired", "again"} {
		w.publish("BAD", uri)
	}
	w.raw("BAD", nil, withDue("BAD", "dead"))
	w.raw("TWR-1", nil, []byte(`{"site_id":"TWR-1","source_uri":"undecodable",}`))
	worker := w.work()
	w.drain()
	worker.stop()
	act := func(uri string, do func(uint64) (dlq.Outcome, error), want dlq.Outcome) {
		t.Helper()
		if got, err := do(w.letter(report.NewKey("BAD", uri)).Sequence); err != nil || got != want {
			t.Fatalf("%s: %s, %v", uri, got, err)
		}
	}
	act("discarded", func(seq uint64) (dlq.Outcome, error) { return w.letters.Discard(t.Context(), seq, operator) }, dlq.Discarded)
	act("repaired", func(seq uint64) (dlq.Outcome, error) {
		o, key, err := w.letters.Repair(t.Context(), seq, "corrected", operator)
		w.published = append(w.published, key)
		return o, err
	}, dlq.Repaired)
	w.reopen(report.NewKey("TWR-1", "reopened")) // and the copy was never put
	w.raw("BAD", nil, body("BAD", "again"))      // a dead report is handed over again
	w.raw("TWR-1", nil, withDue("TWR-1", "queued"))
	w.requeue("TWR-1", "requeued", stream.Carried{PublishedAt: time.Now()})
	w.park("TWR-1", "parked", time.Now().Add(time.Hour))

	slow, dead := "exhausted 4 attempts: slow", w.letter(report.NewKey("BAD", "dead"))
	rows := []struct {
		site, uri string
		want      fate.Standing
	}{
		{"TWR-1", "done", fate.Standing{Fate: fate.Done}},
		{"TWR-1", "reopened", fate.Standing{Fate: fate.Waiting}},
		{"TWR-1", "exhausted", fate.Standing{Fate: fate.Dead, Class: report.ClassExhausted, Code: report.CodeTimeout, Reason: slow}},
		{"TWR-1", "undecodable", fate.Standing{Fate: fate.Unknown}},
		{"TWR-1", "never", fate.Standing{Fate: fate.Unknown}},
		{"TWR-1", "queued", fate.Standing{Fate: fate.Waiting, Due: due}},
		{"TWR-1", "requeued", fate.Standing{Fate: fate.Waiting}},
		{"TWR-1", "parked", fate.Standing{Fate: fate.Waiting, Parked: true}},
		{"BAD", "again", fate.Standing{Fate: fate.Waiting}},
		{"BAD", "corrected", fate.Standing{Fate: fate.Waiting}},
		{"BAD", "dead", fate.Standing{Fate: fate.Dead, Due: due, Class: report.ClassPoison, Code: dead.Code, Reason: dead.Reason}},
		{"BAD", "discarded", fate.Standing{Fate: fate.Discarded, Reason: operator.Reason, Actor: operator.Actor}},
		{"BAD", "repaired", fate.Standing{
			Fate: fate.Discarded, Reason: "repaired as " + string(report.NewKey("BAD", "corrected")) + ": " + operator.Reason, Actor: operator.Actor,
		}},
	}
	var refs []report.Ref
	for _, r := range rows {
		refs = append(refs, refOf(r.site, r.uri))
	}
	out := w.reconcile(refs, nil)
	for i, r := range rows {
		got := out.Standings[i]
		if settled := got.Fate == fate.Done || got.Fate == fate.Dead || got.Fate == fate.Discarded; settled == got.Since.IsZero() {
			t.Errorf("%s %s since %v", r.uri, got.Fate, got.Since)
		}
		got.Since = time.Time{}
		if got != r.want {
			t.Errorf("%s: got %+v, want %+v", r.uri, got, r.want)
		}
		if a, err := w.finder.Of(t.Context(), refs[i].Site, refs[i].Key); err != nil || a.Fate != got.Fate || a.Parked != got.Parked {
			t.Errorf("%s: alone it is %s, %v", r.uri, a.Fate, err)
		}
	}
	if out.Moved != 0 {
		t.Errorf("%d have moved", out.Moved)
	}
	if out := w.reconcile(nil, nil); out.Moved != 0 {
		t.Errorf("of none: %+v", out)
	}
	if _, err := w.finder.Reconcile(t.Context(), []report.Ref{refs[0], refs[1], refs[0]}, func(string, int, int) {}); err == nil {
		t.Error("a list with a repeat was taken")
	}
	w.work()
	w.drain()
	w.ends(invariant.Tally{Done: 3, Waiting: 2, Dead: 5, Discarded: 2})
}

// What is stored for one report and cannot be read does not hide the others.
func TestReconcileBesideTheUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	w.publish("TWR-1", "queued")
	refs := []report.Ref{refOf("TWR-1", "queued"), refOf("TWR-1", "garbled"), refOf("TWR-1", "unrecorded")}
	for i, subject := range []string{"", "$KV.reports_ledger.", "reports.audit."} {
		if subject != "" {
			_, err := w.js.Publish(t.Context(), subject+string(refs[i].Site)+"."+string(refs[i].Key), []byte("\x1b["))
			w.must(err)
		}
	}
	out := w.reconcile(refs, nil)
	if got := out.Standings[0]; got.Fate != fate.Waiting {
		t.Errorf("the report beside them: %+v", got)
	}
	for i, why := range map[int]error{1: keyvalue.ErrUnreadable, 2: audit.ErrUnreadable} {
		if got := out.Standings[i]; got.Fate != fate.Unknown || !strings.Contains(got.Reason, why.Error()) {
			t.Errorf("got %+v, want that %v", got, why)
		}
	}
	w.ended = true // what was garbled on purpose is no fate
}

// Reports move between the looks, with the flow and against it.
func TestReconcileCountsWhatMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	w.publish("BAD", "replayed")
	w.publish("BAD", "stays")
	w.publish("BAD", "vanishes")
	worker := w.work()
	w.drain()
	worker.stop()
	vanishes := w.letter(report.NewKey("BAD", "vanishes"))
	refs := []report.Ref{refOf("BAD", "replayed"), refOf("BAD", "stays"), refOf("BAD", "vanishes"), refOf("TWR-1", "comes")}
	again := 0
	out := w.reconcile(refs, func(what string, n int) {
		switch {
		case what == "reading the ledger":
			w.replay(w.letter(report.NewKey("BAD", "replayed")), dlq.Replayed)
			w.must(jsapi.Delete(t.Context(), w.js, dlq.Stream, vanishes.Sequence)) // as in the middle of a replay
			w.publish("TWR-1", "comes")
		case what == "looking again" && n == len(refs):
			w.must(w.queues.Requeue(t.Context(), vanishes.Site, vanishes.Key, nil, vanishes.Body, stream.Carried{PublishedAt: time.Now()}, 0))
			again++
		}
	})
	var got []fate.Fate
	for _, s := range out.Standings {
		got = append(got, s.Fate)
	}
	if diff := cmp.Diff([]fate.Fate{fate.Waiting, fate.Dead, fate.Waiting, fate.Waiting}, got); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
	if out.Moved != 3 || again != 1 {
		t.Errorf("%d have moved, want 3; the vanished one came back %d times", out.Moved, again)
	}
	w.ends(invariant.Tally{Waiting: 3, Dead: 1})
}

// A report that the trail knows is looked for a few times more before it is called unknown.
func TestReconcileLooksForWhatTheTrailKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	ref := refOf("TWR-1", "a.pdf")
	w.must(w.trail.Append(t.Context(), audit.Event{Time: time.Now(), Kind: audit.AttemptFailed, Key: ref.Key, SiteID: "TWR-1", Stream: stream.Reports, Sequence: 1, Delivery: 1}))
	again := 0
	count := func(what string, _ int) {
		if what == "looking again" {
			again++
		}
	}
	if out := w.reconcile([]report.Ref{ref}, count); out.Standings[0].Fate != fate.Unknown || out.Moved != 0 || again != 5 {
		t.Errorf("after %d looks: %+v", again+1, out)
	}
	again = 0
	out := w.reconcile([]report.Ref{ref}, func(what string, n int) {
		if count(what, n); what == "looking again" && again == 3 {
			w.publish("TWR-1", "a.pdf")
		}
	})
	if out.Standings[0].Fate != fate.Waiting || out.Moved != 1 || again != 4 {
		t.Errorf("after %d looks: %+v", again+1, out)
	}
	w.ends(invariant.Tally{Waiting: 1})
}
