package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/reprocess"
)

// While workers land, retry and bury reports, while operators replay letters and have results worked again, everything is verified and
// signed over and over. Nothing in motion is a finding, and every checkpoint still fits at the end.
func TestVerifiedWhileAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		switch {
		case e.SiteID == "BAD":
			return nil, report.Poison(report.CodeMalformedPDF, fmt.Errorf("run %d", run))
		case e.SiteID == "SHAKY" && run < 3:
			return nil, report.Transient(report.CodeTimeout, errors.New("no answer"))
		}
		return report.Result(fmt.Sprintf(`{"run":%d}`, run)), nil
	})
	w.must(proof.Setup(t.Context(), w.js, 1))
	private, public, err := proof.NewKey("office")
	w.must(err)
	key, err := proof.ParseKey(private)
	w.must(err)
	keys, err := proof.ParseKeys(public)
	w.must(err)
	log := proof.New(w.js, w.ledger, w.letters)
	var file []byte // the newest checkpoint, kept elsewhere
	signed := 0
	sign := func() {
		t.Helper()
		c, seen, err := log.Sign(t.Context(), key, nil, file, nil, 0)
		switch {
		case errors.Is(err, proof.ErrNothing):
			return
		case err != nil:
			t.Fatalf("checkpoint %d: %v %v", signed+1, err, seen.Findings)
		}
		file = c.Note
		signed++
	}
	var good []report.Key
	for range 2 {
		w.work()
	}
	for n := range 60 {
		site := []string{"GOOD", "BAD", "SHAKY"}[n%3]
		if k := w.publish(site, fmt.Sprintf("s3://reports/%d.pdf", n)); site == "GOOD" {
			good = append(good, k)
		}
		if n%10 == 9 {
			sign()
		}
	}
	desk := reprocess.New(w.queues, w.ledger, w.letters, w.trail)
	for round := range 3 {
		for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
			w.must(err)
			_, err := w.letters.Replay(t.Context(), l.Sequence, dlq.By{Actor: "ada@office", Reason: "again"})
			w.must(err)
		}
		sign()
		for _, k := range good[:5] {
			_, err := desk.Reprocess(t.Context(), "*", k, reprocess.By{Actor: "ada@office", Reason: "a corrected file"})
			if err != nil && !errors.Is(err, reprocess.ErrNotSettled) && !errors.Is(err, reprocess.ErrChanged) {
				t.Fatal(err)
			}
			sign()
		}
		seen, err := log.Verify(t.Context(), keys, file)
		if err != nil || !seen.Sound() || seen.Fit != signed {
			t.Fatalf("round %d: %v, %d of %d checkpoints fit, findings %v", round, err, seen.Fit, signed, seen.Findings)
		}
	}
	natstest.Eventually(t, "both queues to be empty", seldom(func() bool { return w.stored() == 0 }))
	sign()
	seen, err := log.Verify(t.Context(), keys, file)
	if err != nil || !seen.Sound() || seen.Fit != signed || seen.Results != 40 || seen.Letters != 20 {
		t.Errorf("%v: %+v", err, seen)
	}
	for _, k := range good[:6] {
		b, _, err := log.Prove(t.Context(), k, report.Event{}, keys)
		w.must(err)
		if a, err := proof.Check(b, keys); err != nil || !a.Landed || a.SiteID != "GOOD" {
			t.Errorf("%v: %+v", err, a)
		}
	}
	w.ends(invariant.Tally{Done: 40, Dead: 20})
}
