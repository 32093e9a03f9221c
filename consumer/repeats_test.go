package consumer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// saying is a report's payload with one field more.
func saying(site, field string) []byte {
	return append(bytes.TrimSuffix(payload(site), []byte("}")), ","+field+"}"...)
}

var otherFile = `"sha256":"` + strings.Repeat("0", 64) + `"`

// A repeat of a parked report, which would have to be parked too, is a duplicate, as it would be had the report landed: it is not tried,
// suspected or buried for deliveries that nobody has worked.
func TestRepeatOfTheParked(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"written otherwise": append(payload("A"), '\n'),
		"of another list":   saying("A", `"metadata":{"list":"tonight"}`),
		"due at last":       saying("A", `"due":"2030-01-01T00:00:00Z"`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.ParkMax = time.Hour
			cfg.Backoff = report.Backoff{Base: time.Minute, Max: time.Hour} // nobody probes
			w := newWorld(t, cfg, script{"A": {refuse}})
			w.publish("A")
			w.start()
			w.await("A", Parked)
			w.publishRaw("A", nil, body)
			w.await("A", Duplicate)
			w.check(invariant.Tally{Waiting: 1})
			if got := w.saw("A", LeftAlone) + w.saw("A", Buried); got > 0 {
				t.Errorf("the outcomes are %+v", w.outcomes["A"])
			}
			if got := w.events(w.keys[0], audit.Suspect); len(got) > 0 {
				t.Errorf("the trail has suspicions: %+v", got)
			}
		})
	}
}

// A repeat that expects another file than the parked copy is not acked in its favour. It cannot be parked beside that, so it is tried, and
// what its letter says is so. When the first copy lands the report is done.
func TestCorrectionOfTheParked(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	cfg := quick()
	cfg.ParkMax = time.Hour
	w := newWorld(t, cfg, script{"A": times(1000, func(ctx context.Context) (report.Result, error) {
		if up.Load() {
			return succeed(ctx)
		}
		return refuse(ctx)
	})})
	w.publish("A")
	w.start()
	w.await("A", Parked)
	w.publishRaw("A", nil, saying("A", otherFile))
	w.await("A", Buried)
	w.checkLetter("A", dlq.Letter{Class: report.ClassExhausted, Code: report.CodeUnauthorized, Reason: "exhausted 4 attempts: login failed", Attempts: 4})
	up.Store(true)
	w.await("A", Succeeded)
	natstest.Eventually(t, "the letter to be closed", func() bool { return w.countLetters() == 0 })
	w.check(invariant.Tally{Done: 1})
	if got := w.saw("A", Duplicate); got > 0 {
		t.Errorf("the outcomes are %+v", w.outcomes["A"])
	}
}

// The verdict of a last attempt stands, also if the report would be parked and a copy of it that says something else is.
func TestVerdictBesideACopy(t *testing.T) {
	t.Parallel()
	missing := func(context.Context) (report.Result, error) {
		return nil, report.Transient(report.CodeNotFound, errors.New("no such object"))
	}
	cfg := quick()
	cfg.ParkMax = time.Hour
	w := newWorld(t, cfg, script{"A": {missing, missing, missing, refuse}})
	w.publish("A")
	m := w.stored(stream.Reports)
	until := time.Now().Add(time.Hour)
	other := stream.Carried{PublishedAt: m.PublishedAt.Add(-time.Hour), StandsFor: stream.Ref{Stream: stream.Reports, Sequence: 999},
		Parking: &stream.Parking{Since: time.Now(), Upstream: "s3://reports", Code: report.CodeConnection, Reason: "refused"}}
	if err := w.queues().Park(t.Context(), m.Site, m.Key, nil, saying("A", otherFile), other, 0, until); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.await("A", Buried)
	w.checkLetter("A", dlq.Letter{Class: report.ClassExhausted, Code: report.CodeUnauthorized, Reason: "exhausted 4 attempts: login failed", Attempts: 4})
}

// What was left of a message that has died since does not stand for a report that is handed over again: it will not be worked.
func TestRemnantStandsForNothing(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.ParkMax = time.Hour
	cfg.Backoff = report.Backoff{Base: time.Second, Max: time.Second}
	w := newWorld(t, cfg, script{"A": {succeed}, "B": times(1000, refuse)})
	m := w.publishRaw("A", nil, payload("A"))
	l := w.putLetter(m, report.ClassExhausted, "exhausted 4 attempts: login failed")
	if err := w.letters().RecordDeath(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	remnant := stream.Carried{PublishedAt: m.PublishedAt, StandsFor: m.Ref,
		Parking: &stream.Parking{Since: time.Now(), Upstream: "s3://reports", Code: report.CodeUnauthorized, Reason: "login failed"}}
	if err := w.queues().Park(t.Context(), m.Site, m.Key, nil, m.Body, remnant, 0, time.Now().Add(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := w.queues().Delete(t.Context(), m.Ref); err != nil {
		t.Fatal(err)
	}
	w.publish("B")
	w.start()
	w.await("B", Parked)
	w.publishRaw("A", nil, append(payload("A"), '\n'))
	w.await("A", Succeeded)
	natstest.Eventually(t, "the letter to be closed", func() bool { return w.countLetters() == 0 })
	natstest.Eventually(t, "the remnant to be let go", func() bool {
		_, err := w.queues().Copy(t.Context(), m.Site, m.Key)
		return errors.Is(err, jsapi.ErrNotFound)
	})
	w.check(invariant.Tally{Done: 1, Waiting: 1})
}
