package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
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

// A letter that names a report's very message, but is none of Guyline's or was changed, does not keep the report in the queue: it is
// worked, and its own letter takes the place of the other. If its death is on record it only leaves the queue.
func TestLetterOfAStranger(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		died   string // the row after which a worker died before
		script []run
		forge  func(*dlq.Letter)
		want   invariant.Tally
	}{
		"before it is worked":         {"", []run{poison}, func(l *dlq.Letter) { l.Hash = "none" }, invariant.Tally{Dead: 1}},
		"and it lands":                {"4 admitted", []run{succeed}, func(l *dlq.Letter) { l.Hash = "none" }, invariant.Tally{Done: 1}},
		"with another's payload":      {"4 admitted", []run{poison}, func(l *dlq.Letter) { l.Body = payload("B") }, invariant.Tally{Dead: 1}},
		"in the middle of its burial": {"7c letter", []run{poison, poison}, func(l *dlq.Letter) { l.Reason = "forged" }, invariant.Tally{Dead: 1}},
		"when its death is on record": {"7c recorded", []run{poison, poison}, func(l *dlq.Letter) { l.Reason = "forged" }, invariant.Tally{}},
		"changed, with its hash, when its death is on record": {"7c recorded", []run{poison}, func(l *dlq.Letter) {
			l.Reason, l.Hash = "forged", report.AuditHash(l.Key, "forged")
		}, invariant.Tally{}},
		"and it kills all its workers": {"4 admitted", nil, func(l *dlq.Letter) { l.Hash = "none" }, invariant.Tally{Dead: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"A": tt.script})
			w.publish("A")
			m := w.stored(stream.Reports)
			switch {
			case tt.script == nil:
				w.startDying(w.cfg.Queues.MaxAttempts, tt.died)
			case tt.died != "":
				w.startDying(1, tt.died)
			}
			l, err := w.letters().Current(t.Context(), m.Site, m.Key)
			if errors.Is(err, dlq.ErrNotFound) {
				l, err = dlq.Letter{
					Key: m.Key, Site: m.Site, Class: report.ClassPoison, Code: report.CodeNoPages, Reason: "forged",
					Hash: report.AuditHash(m.Key, "forged"), Source: m.Ref, PublishedAt: m.PublishedAt, Body: m.Body,
				}, nil
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.forge(&l)
			if _, err := w.letters().Put(t.Context(), l, l.Sequence); err != nil {
				t.Fatal(err)
			}
			w.start()
			w.awaitEmpty()
			if tt.want.Done > 0 {
				natstest.Eventually(t, "the sweep to close the letter", func() bool {
					_, err := w.letters().Current(context.Background(), m.Site, m.Key)
					return errors.Is(err, dlq.ErrNotFound)
				})
			}
			w.stopAll()
			if tt.want != (invariant.Tally{}) {
				w.check(tt.want)
			} else if got := w.events(m.Key, audit.Death); len(got) != 1 || got[0].Reason != "no trailer" {
				t.Errorf("deaths: %+v", got)
			}
			if tt.want.Dead > 0 && !w.letter("A").Sound() {
				t.Errorf("the letter is still the forged one: %+v", w.letter("A"))
			}
		})
	}
}
