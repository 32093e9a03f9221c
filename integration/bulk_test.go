package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// replayAll plans and replays every letter.
func (w *world) replayAll(b dlq.Bulk) dlq.Tally {
	w.Helper()
	p, err := w.letters.Plan(w.Context(), dlq.PlanOptions{})
	w.must(err)
	b.By = operator
	tally, err := w.letters.ReplayAll(w.Context(), p.Send, b)
	w.must(err)
	return tally
}

// The clocks of workers step by an hour, back and forth: letters that died in the future, or before their report was
// published, are replayed like others, once each.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const n = 24
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		if run <= 2 {
			return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
		}
		return nil, nil
	})
	steps := []time.Duration{-time.Hour, 0, time.Hour}
	step := func(dead []dlq.Letter, turn int) {
		for i, l := range dead {
			whole, err := w.letters.At(t.Context(), l.Sequence)
			w.must(err)
			by := steps[(i+turn)%len(steps)]
			whole.FailedAt, whole.FirstFailedAt = whole.FailedAt.Add(by), whole.FirstFailedAt.Add(-by)
			_, err = w.letters.Put(t.Context(), whole, l.Sequence)
			w.must(err)
		}
	}
	w.work()
	dead := w.burials(n)
	step(dead, 0)
	tally := w.replayAll(dlq.Bulk{})
	if want := (dlq.Tally{ByOutcome: map[dlq.Outcome]int{dlq.Replayed: n}, Sent: n}); !cmp.Equal(tally, want) {
		t.Errorf("the first time: %s", cmp.Diff(want, tally))
	}
	w.drain()
	again := make([]dlq.Letter, n)
	for i, l := range dead {
		again[i] = w.letter(l.Key)
	}
	step(again, 1)
	tally = w.replayAll(dlq.Bulk{Canary: 5})
	if want := (dlq.Tally{ByOutcome: map[dlq.Outcome]int{dlq.Replayed: n}, Sent: n, CanaryLanded: 5}); !cmp.Equal(tally, want) {
		t.Errorf("the second time: %s", cmp.Diff(want, tally))
	}
	w.drain()
	for _, l := range dead {
		w.wantRuns(l.Key, 3)
	}
	w.ends(invariant.Tally{Done: n})
}

// Complaints 13, 22 and 23: over many replays there is one letter of a report, its payload stays byte for byte what the
// publisher wrote, and its headers do not grow.
func TestManyReplaysOfOneReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	payload := []byte("{\"site_id\": \"BAD\",\t\"source_uri\":\"s3://reports/a.pdf\" , \"metadata\":{\"firm\":\"\\u00c5cme & <S\u00f8ns>\"}}\n")
	foreign := nats.Header{"X-Firm": {"Åcme", "Sons"}, "X-Long": {strings.Repeat("x", 8<<10)}}
	key := w.raw("BAD", foreign, payload)
	worker := w.work()
	l := w.dies(key, 0)
	size := func() int {
		m, err := jsapi.Last(t.Context(), w.js, dlq.Stream, "reports.dlq.*."+string(key))
		w.must(err)
		n := 0
		for name, values := range m.Header {
			if strings.HasPrefix(name, "Nats-") {
				continue
			}
			for _, v := range values {
				n += len(name) + len(v)
			}
		}
		return n
	}
	first, firstSize := l, size()
	const times = 30
	for n := 1; n <= times; n++ {
		worker.stop() // so that the copy can be looked at
		outcome, err := w.letters.Replay(t.Context(), l.Sequence, dlq.By{Actor: operator.Actor, Force: true})
		if err != nil || outcome != dlq.Replayed {
			t.Fatalf("replay %d: %s, %v", n, outcome, err)
		}
		copied, err := w.queues.Copy(t.Context(), l.Site, key)
		w.must(err)
		if !bytes.Equal(copied.Body, payload) {
			t.Fatalf("replay %d: the copy's payload is %q", n, copied.Body)
		}
		worker = w.work()
		l = w.dies(key, l.Sequence)
		if !bytes.Equal(l.Body, payload) || !cmp.Equal(l.Foreign, foreign) || l.Replays != n || !l.FirstFailedAt.Equal(first.FirstFailedAt) {
			t.Fatalf("replay %d: %+v", n, l)
		}
		if got := size(); got > firstSize+200 { // times with more digits, and how often
			t.Fatalf("replay %d: the letter's headers have %d bytes, the first had %d", n, got, firstSize)
		}
	}
	for _, e := range w.events(key, audit.Death) {
		if e.Payload != report.PayloadHash(payload) {
			t.Errorf("the trail says of a death's payload %s", e.Payload)
		}
	}
	if n := len(w.events(key, audit.Death)); n != times+1 {
		t.Errorf("the trail has %d deaths", n)
	}
	w.ends(invariant.Tally{Dead: 1})
}

// One of three sources is back: the canary asks all three and stops the rest; with a filter for what is back all of it lands.
func TestCanaryOverUpstreams(t *testing.T) {
	t.Parallel()
	const each = 20
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if run == 1 || !strings.HasPrefix(e.SourceURI, "s3://back/") {
			code := report.CodeConnection
			if strings.HasPrefix(e.SourceURI, "s3://back/") {
				code = report.CodeTimeout
			}
			return nil, report.Poison(code, errors.New("no answer"))
		}
		return nil, nil
	})
	for i := range each {
		for _, host := range []string{"down", "away", "back"} {
			w.publish("TWR-1", fmt.Sprintf("s3://%s/%d.pdf", host, i))
		}
	}
	w.work()
	w.drain()
	tally := w.replayAll(dlq.Bulk{Canary: 6})
	want := dlq.Tally{
		ByOutcome: map[dlq.Outcome]int{dlq.Replayed: 6}, Sent: 6, CanaryLanded: 2, CanaryDied: 4,
		Stopped: "most of the canary did not land: 4 of 6 died again (4 x connection)",
	}
	if !cmp.Equal(tally, want) {
		t.Error(cmp.Diff(want, tally))
	}
	p, err := w.letters.Plan(t.Context(), dlq.PlanOptions{Filter: dlq.Filter{Code: report.CodeTimeout}})
	w.must(err)
	if got, want := p.Causes, []dlq.Cause{{Class: report.ClassPoison, Code: report.CodeTimeout, Upstream: "s3://back", Count: each - 2}}; !slices.Equal(got, want) {
		t.Errorf("causes %+v, want %+v", got, want)
	}
	tally, err = w.letters.ReplayAll(t.Context(), p.Send, dlq.Bulk{By: operator, Canary: 6})
	w.must(err)
	if tally.Sent != each-2 || tally.CanaryLanded != 6 || tally.Stopped != "" {
		t.Errorf("of what is back: %+v", tally)
	}
	w.drain()
	w.ends(invariant.Tally{Done: each, Dead: 2 * each})
}
