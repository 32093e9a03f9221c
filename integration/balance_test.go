package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// mixed does with a report what its site says.
func mixed(_ context.Context, e report.Event, run int) (report.Result, error) {
	switch {
	case e.SiteID == "ONCE" && run == 1, e.SiteID == "THRICE" && run <= 3, e.SiteID == "NEVER":
		return nil, report.Transient(report.CodeServerError, fmt.Errorf("run %d", run))
	case e.SiteID == "POISON":
		return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
	case e.SiteID == "PANIC":
		panic("no trailer")
	}
	return report.NewResult(map[string]string{"uri": e.SourceURI})
}

// Four hundred mixed reports, two workers of eight slots each. In the middle both are stopped, as in a deployment, and
// the books are balanced; then others finish.
func TestBalance(t *testing.T) {
	t.Parallel()
	const each = 50
	w := newWorld(t, mixed, func(cfg *consumer.Config) { cfg.Workers = 8 })
	runs := map[string]int{"GOOD": 1, "TWICE": 1, "ONCE": 2, "THRICE": 4, "NEVER": 4, "POISON": 1, "PANIC": 1}
	sites := map[report.Key]string{}
	for i := range each {
		for site := range runs {
			sites[w.publish(site, fmt.Sprint("s3://reports/", i, ".pdf"))] = site
		}
		w.raw("GARBLED", nil, fmt.Appendf(nil, `{"site_id":"GARBLED","source_uri":%d}`, i))
	}
	first, second := w.work(), w.work()
	natstest.Eventually(t, "a third to be settled", func() bool { return w.commits() >= each })
	first.stop()
	second.stop()
	natstest.Eventually(t, "the server to obey the last words of both", seldom(func() bool {
		letters, err := w.js.Stream(t.Context(), dlq.Stream)
		w.must(err)
		return w.stored()+int(w.commits()+letters.CachedInfo().State.Msgs) == 8*each
	}))
	middle := invariant.Check(t, w.js, w.published...)
	if sum := middle.Done + middle.Dead + middle.Waiting; sum != 8*each || middle.Done < each {
		t.Errorf("in the middle: %+v, which is %d of %d", middle, sum, 8*each)
	}
	for i := range each { // a publisher without Nats-Msg-Id hands these over again, whatever has become of them
		w.raw("TWICE", nil, body("TWICE", fmt.Sprint("s3://reports/", i, ".pdf")))
	}
	w.work()
	w.work()
	w.drain()
	w.stop()

	wrong := map[string]int{}
	for key, site := range sites {
		if n := w.ran(key); n != runs[site] && !(site == "TWICE" && n == 2) { // both copies may have been in work at once
			wrong[fmt.Sprint(site, " ran ", n, " times")]++
		}
	}
	if diff := cmp.Diff(map[string]int{}, wrong); diff != "" {
		t.Errorf("reports by runs of the handler (-want +got):\n%s", diff)
	}
	got := map[string]int{}
	for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
		w.must(err)
		got[fmt.Sprintln(l.SiteID(), l.Class, l.Code, l.Attempts, l.Reason)]++
	}
	want := map[string]int{
		"NEVER exhausted server-error 4 exhausted 4 attempts: run 4\n":                     each,
		"POISON poison malformed-pdf 1 no trailer\n":                                       each,
		"PANIC poison panic 1 panic: no trailer\n":                                         each,
		" poison invalid-event 0 invalid event: source_uri has the wrong type: a number\n": each,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	if n := w.commits(); n != 4*each {
		t.Errorf("the ledger took %d writes, want %d", n, 4*each)
	}
	w.ends(invariant.Tally{Done: 4 * each, Dead: 4 * each})
}

// A rolling deployment: workers come and go all the time, and none of that counts as a failed attempt.
func TestRollingDeployment(t *testing.T) {
	t.Parallel()
	const batch = 200
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if e.SourceURI == "cut" && run <= 5 { // more often than there are attempts
			<-ctx.Done()
			return nil, report.Transient(report.CodeTimeout, ctx.Err())
		}
		return nil, nil
	})
	cut := w.publish("TWR-1", "cut")
	for i := range batch {
		w.publish("TWR-1", fmt.Sprint("s3://reports/", i, ".pdf"))
	}
	for n := 1; n <= 5; n++ {
		worker := w.work(func(cfg *consumer.Config) { cfg.StopGrace = 0 })
		natstest.Eventually(t, "the long one to be in work", func() bool { return w.ran(cut) == n })
		worker.stop()
		if a := w.fate(cut); a.Fate != "waiting" {
			t.Fatalf("handed back %d times: fate %s", n, a.Fate)
		}
	}
	w.work()
	w.drain()
	w.stop()
	w.wantRuns(cut, 6)
	if e := w.entry(cut); e.Attempts != 1 {
		t.Errorf("the ledger says %d attempts, want 1: being stopped is not failing", e.Attempts)
	}
	w.ends(invariant.Tally{Done: batch + 1})
}
