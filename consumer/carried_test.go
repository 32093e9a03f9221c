package consumer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// judged is what a copy carries whose report was judged but could not be buried.
func judged(attempts int) stream.Carried {
	return stream.Carried{
		Attempts: attempts, StandsFor: stream.Ref{Stream: stream.Reports, Sequence: 1}, PublishedAt: time.Now().Add(-time.Minute).UTC(),
		Verdict: &stream.Verdict{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: "exhausted 4 attempts: 503", FailedAt: time.Now().UTC()},
	}
}

// A real verdict replaces the letter that a sweep has written meanwhile about the same message, and the trail shows both.
func TestRealVerdictReplacesAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.requeue("A", judged(4))
	l := w.putLetter(w.stored(stream.Requeued), report.ClassAbandoned, "abandoned: 4 deliveries")
	if err := w.letters().RecordDeath(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.check(invariant.Tally{Dead: 1})
	got := w.letter("A")
	if got.Class != report.ClassExhausted || got.Reason != "exhausted 4 attempts: 503" || got.Attempts != 4 {
		t.Errorf("letter says %s %q after %d attempts, want the verdict that was carried", got.Class, got.Reason, got.Attempts)
	}
	deaths := w.events(got.Key, audit.Death)
	if len(deaths) != 2 || deaths[0].Class != report.ClassAbandoned || !deaths[1].Corrects || deaths[1].Hash != got.Hash {
		t.Errorf("the trail has deaths %+v, want the abandoned one and its correction", deaths)
	}
}

// A verdict does not replace another real one of the same message, however it gets there.
func TestFirstVerdictStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.requeue("A", judged(4))
	first := w.putLetter(w.stored(stream.Requeued), report.ClassPoison, "not a PDF")
	w.start()
	w.check(invariant.Tally{Dead: 1})
	if diff := cmp.Diff(first, w.letter("A")); diff != "" {
		t.Errorf("the letter has changed (-first +last):\n%s", diff)
	}
}

// A copy of a message that was buried meanwhile is not run, although it carries no verdict and is delivered for the first time.
func TestCopyOfTheBuried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.requeue("A", stream.Carried{StandsFor: stream.Ref{Stream: stream.Reports, Sequence: 1}, PublishedAt: time.Now().UTC()})
	first := w.putLetter(w.stored(stream.Requeued), report.ClassPoison, "not a PDF")
	w.start()
	w.check(invariant.Tally{Dead: 1})
	if diff := cmp.Diff(first, w.letter("A")); diff != "" {
		t.Errorf("the letter has changed (-first +last):\n%s", diff)
	}
}

// A copy that carries a verdict and is handed back once more, as the ledger cannot be read, carries what it carried.
func TestVerdictIsHandedOn(t *testing.T) {
	t.Parallel()
	cfg := quick()
	w := newWorld(t, cfg, script{})
	want := judged(4)
	w.requeue("A", want)
	k := w.open()
	at("1 pulled", func(*worker) { // from now on nothing can be looked up
		if err := w.js.DeleteStream(t.Context(), "KV_reports_ledger"); err != nil {
			t.Error(err)
		}
	})(k)
	w.run(k)
	natstest.Eventually(t, "it to be stuck", k.gate.isShut)
	if err := k.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := keyvalue.Setup(t.Context(), w.js, 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.stored(stream.Requeued).Carried); diff != "" {
		t.Errorf("carried (-want +got):\n%s", diff)
	}
	w.start()
	w.check(invariant.Tally{Dead: 1})
	w.checkLetter("A", dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: want.Verdict.Reason, Attempts: 4})
}

// Another letter of the report gives way to a new death, which carries its replays and its first failure on.
func TestNewDeathReplacesAnOldLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {poison}})
	w.publish("A")
	m := w.stored(stream.Reports)
	old := dlq.Letter{
		Key: m.Key, Site: m.Site, Class: report.ClassPoison, Code: report.CodeNotAPDF, Reason: "old", Hash: report.AuditHash(m.Key, "old"),
		Attempts: 1, Source: stream.Ref{Stream: stream.Requeued, Sequence: 77}, PublishedAt: m.PublishedAt.Add(-time.Hour),
		FirstFailedAt: m.PublishedAt.Add(-time.Hour), FailedAt: m.PublishedAt, Replays: 3, Body: m.Body,
	}
	if _, err := w.letters().Put(t.Context(), old, 0); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.check(invariant.Tally{Dead: 1})
	w.checkLetter("A", dlq.Letter{Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "no trailer", Attempts: 1})
	if got := w.letter("A"); got.Replays != 3 || !got.FirstFailedAt.Equal(old.FirstFailedAt) || got.Source != m.Ref {
		t.Errorf("letter has %d replays, first failed at %v, is about %v; want 3, %v, %v", got.Replays, got.FirstFailedAt, got.Source, old.FirstFailedAt, m.Ref)
	}
}

// What a handed-back report has spent counts on; a number that is too large leaves one attempt.
func TestAttemptsAreCarried(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spent int
		runs  int
	}{"none": {0, 4}, "two": {2, 2}, "all": {4, 1}, "too many": {1 << 40, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": times(tt.runs, fail)})
			w.requeue("A", stream.Carried{Attempts: tt.spent})
			w.start()
			w.check(invariant.Tally{Dead: 1})
			w.checkLetter("A", dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: "exhausted 4 attempts: 503", Attempts: 4})
			if got := w.ran("A"); got != tt.runs {
				t.Errorf("the handler ran %d times, want %d", got, tt.runs)
			}
		})
	}
}
