package dlq

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/stream"
)

func TestDiscard(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l, other := y.die(t, "a.pdf"), y.die(t, "b.pdf")
	discard := func(seq uint64, by By, want Outcome) {
		t.Helper()
		if got, err := y.Discard(t.Context(), seq, by); got != want || err != nil {
			t.Errorf("letter %d: got %q, %v; want %q", seq, got, err, want)
		}
	}
	for _, reason := range []string{"", " ", "\r\n\t"} {
		if got, err := y.Discard(t.Context(), l.Sequence, By{Actor: "ada", Reason: reason}); got != "" || err == nil {
			t.Errorf("for the reason %q: got %q, %v", reason, got, err)
		}
	}
	if got, err := y.At(t.Context(), l.Sequence); err != nil || !cmp.Equal(got, l) {
		t.Errorf("the letter: %v %s", err, cmp.Diff(l, got))
	}
	y.trailOf(t, l, audit.Death)

	discard(99, operator, Gone)
	discard(0, operator, Gone)
	discard(l.Sequence, By{Actor: "ada", Reason: "the tower\nis gone"}, Discarded)
	discard(l.Sequence, operator, Gone)
	if e := y.trailOf(t, l, audit.Death, audit.Discard)[1]; e.Actor != "ada" || e.Reason != "the tower is gone" || e.Letter != l.Sequence || e.Hash != l.Hash || e.SiteID != "TWR 1" {
		t.Errorf("recorded %+v", e)
	}
	if got := collect(t, y.Export(t.Context(), Filter{})); !cmp.Equal(got, []Letter{other}) {
		t.Errorf("left: %s", cmp.Diff([]Letter{other}, got))
	}
	if queued := y.queued(t); len(queued) != 0 {
		t.Errorf("queued: %+v", queued)
	}

	newer := y.put(t, other)
	discard(other.Sequence, operator, Gone)
	if _, err := y.At(t.Context(), newer.Sequence); err != nil {
		t.Errorf("the newer letter: %v", err)
	}
	y.trailOf(t, other, audit.Death)
}

func TestDiscardRecovered(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.die(t, "a.pdf")
	if landed, err := y.Close(t.Context(), l, operator); landed || err != nil {
		t.Errorf("close a letter whose report has not landed: %v, %v", landed, err)
	}
	if _, err := y.ledger.Commit(t.Context(), keyvalue.Entry{State: keyvalue.Done, SiteID: "TWR 1", SourceURI: "a.pdf"}); err != nil {
		t.Fatal(err)
	}
	if got, err := y.Discard(t.Context(), l.Sequence, operator); got != Recovered || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	y.gone(t)
	y.trailOf(t, l, audit.Death, audit.Recovered)
	if landed, err := y.Close(t.Context(), l, operator); !landed || err != nil {
		t.Errorf("close it again: %v, %v", landed, err)
	}
	y.trailOf(t, l, audit.Death, audit.Recovered)
}

// A report of which a copy is queued would be worked although it was given up.
func TestDiscardWhileQueued(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.die(t, "a.pdf")
	if err := y.queues.Requeue(t.Context(), l.Site, l.Key, nil, l.Body, stream.Carried{PublishedAt: l.PublishedAt, ReplayOf: l.Sequence}, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := y.Discard(t.Context(), l.Sequence, operator); got != Busy || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, Busy)
	}
	if _, err := y.At(t.Context(), l.Sequence); err != nil {
		t.Errorf("the letter: %v", err)
	}
	y.trailOf(t, l, audit.Death)
}
