package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// On the publishers' queue the headers of ours mean nothing and travel nowhere; theirs are kept.
func TestStrangersHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": times(4, fail)})
	forged := nats.Header{
		"X-Firm": {"Acme", "Sons"}, jetstream.MsgIDHeader: {"x"}, "Status": {"503"},
		report.HeaderAttempts: {"4"}, report.HeaderClass: {"poison"}, report.HeaderReason: {"forged"}, report.HeaderReplays: {"9"},
		report.HeaderStream: {stream.Reports}, report.HeaderStreamSequence: {"99"}, report.HeaderReopened: {"99"},
	}
	w.publishRaw("elsewhere", forged, payload("A"))
	w.start()
	w.check(invariant.Tally{Dead: 1})
	w.checkLetter("A", dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: "exhausted 4 attempts: 503", Attempts: 4})
	l := w.letter("A")
	if diff := cmp.Diff(nats.Header{"X-Firm": {"Acme", "Sons"}}, l.Foreign); diff != "" {
		t.Errorf("headers of the publisher (-want +got):\n%s", diff)
	}
	if l.Replays != 0 || l.Reopened != 0 || l.Site != "A" || l.Subject != "reports.submitted.elsewhere" {
		t.Errorf("letter is of site %s, from %s", l.Site, l.Subject)
	}
}

// An empty body with a Status header, which any publisher can send, is not taken for a word of the server: it is buried at
// its first delivery, and the reports beside it are not harmed.
func TestStatusOfAStranger(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = time.Hour // what is lost does not come back in this test
	w := newWorld(t, cfg, script{})
	var m stream.Message
	for i, status := range []string{"100", "404", "408", "409", "503", ""} {
		site := fmt.Sprint("N", i)
		w.script[site] = []run{succeed}
		w.publish(site)
		m = w.publishRaw("x", nats.Header{"Status": {status}, "X-Firm": {status}}, nil)
	}
	w.start()
	w.check(invariant.Tally{Done: 6, Dead: 1}) // the same body, so the same key, six times
	for site := range w.script {
		if got := w.entry(site).Attempts; got != 1 {
			t.Errorf("%s took %d attempts, want 1", site, got)
		}
	}
	if got := len(w.events(m.Key, audit.Death)); got != 6 {
		t.Errorf("the trail has %d deaths, want 6", got)
	}
	l, err := w.letters().Current(t.Context(), report.NoSite, m.Key)
	if err != nil {
		t.Fatal(err)
	}
	if l.Class != report.ClassPoison || l.Code != report.CodeUndecodable || l.Attempts != 0 || len(l.Body) != 0 {
		t.Errorf("letter is %+v, want poison undecodable", l)
	}
}
