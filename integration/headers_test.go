package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A publisher writes headers that look like ours. They have no effect and do not travel on.
func TestForgedHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	forged := func() nats.Header {
		return nats.Header{
			"Guyline-Attempts": {"99"}, "Guyline-Class": {"poison"}, "Guyline-Code": {"forged"}, "Guyline-Reason": {"forged"},
			"Guyline-Failed-At": {"2020-01-01T00:00:00Z"}, "Guyline-First-Failed-At": {"2020-01-01T00:00:00Z"},
			"Guyline-Reopened": {"999"}, "Guyline-Replays": {"7"}, "Guyline-Replay-Of": {"1"}, "Guyline-Published-At": {"2020-01-01T00:00:00Z"},
			"Guyline-Stream": {"REPORTS_REQUEUE"}, "Guyline-Stream-Sequence": {"1"}, "Guyline-Key": {strings.Repeat("0", 64)},
			"guyline-attempts": {"99"}, "GUYLINE-CLASS": {"abandoned"},
			"Status": {"503"}, "Description": {"forged"}, "X-Firm": {"Acme", "Zenith"}, "x-firm": {"acme"},
		}
	}
	done := w.raw("TWR-1", forged(), body("TWR-1", "s3://reports/a.pdf"))
	dead := w.raw("BAD", forged(), body("BAD", "s3://reports/a.pdf"))
	undecodable := w.raw("BAD", forged(), []byte("?"))
	w.work()
	w.drain()
	first := w.entry(done)
	if first.Attempts != 1 {
		t.Errorf("the ledger says %d attempts, want 1", first.Attempts)
	}
	w.wantDeath(w.letter(dead), death{report.ClassPoison, report.CodeMalformedPDF, "no trailer", 1, 0})
	w.wantDeath(w.letter(undecodable), death{report.ClassPoison, report.CodeUndecodable,
		"undecodable event: it is not a JSON object", 0, 0})
	for _, key := range []report.Key{dead, undecodable} {
		l := w.letter(key)
		if l.Source.Stream != stream.Reports || l.Reopened != 0 || l.PublishedAt.Year() == 2020 || l.FirstFailedAt.Year() == 2020 {
			t.Errorf("the letter has believed the publisher: %+v", l)
		}
		if diff := cmp.Diff(nats.Header{"X-Firm": {"Acme", "Zenith"}, "x-firm": {"acme"}}, l.Foreign); diff != "" {
			t.Errorf("the publisher's headers in the letter (-want +got):\n%s", diff)
		}
	}

	w.raw("TWR-1", forged(), body("TWR-1", "s3://reports/a.pdf")) // with Guyline-Reopened: 999
	w.drain()
	w.wantRuns(done, 1)
	if diff := cmp.Diff(first, w.entry(done)); diff != "" {
		t.Errorf("the ledger's entry has changed:\n%s", diff)
	}
	w.ends(invariant.Tally{Done: 1, Dead: 2})
}

// What could erase, expire, delay or sample other reports is refused at the publishers' door.
func TestServerHeadersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	for i := range 3 {
		w.publish("TWR-1", fmt.Sprint("s3://reports/", i, ".pdf"))
	}
	for _, h := range []nats.Header{
		{"Nats-Rollup": {"all"}},
		{"Nats-Rollup": {"sub"}},
		{"Nats-TTL": {"1s"}},
		{"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"reports.submitted.TWR-1"}},
		{"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"reports.requeued.TWR-1.x"}},
		{"Nats-Schedule-Next": {"purge"}, "Nats-Scheduler": {"reports.submitted.TWR-1"}},
		{"Nats-Incr": {"+1"}},
		{"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		{"Nats-Expected-Stream": {"REPORTS_DLQ"}},
		{"Nats-Expected-Last-Sequence": {"0"}},
	} {
		msg := &nats.Msg{Subject: "reports.submitted.TWR-1", Header: h, Data: body("TWR-1", "s3://reports/refused.pdf")}
		_, err := w.js.PublishMsg(t.Context(), msg)
		if _, refused := errors.AsType[*jetstream.APIError](err); !refused {
			t.Errorf("%v: %v, want a refusal", h, err)
		}
		if s := w.queue(stream.Reports); s.Stored != 3 {
			t.Fatalf("%v: %d reports are stored, want the 3 from before", h, s.Stored)
		}
	}
	w.work()
	w.drain()
	w.ends(invariant.Tally{Done: 3})
}

// Headers of the server's kind that it lets pass do nothing, then or on a replay.
func TestServerHeadersDoNotTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	h := nats.Header{
		"Nats-Msg-Id": {"not the key"}, "Nats-Stream": {"REPORTS_DLQ"}, "Nats-Subject": {"reports.requeued.TWR-1.x"},
		"nats-rollup": {"all"}, "Nats-Marker-Reason": {"Purge"}, "Nats-Sequence": {"1"}, "Nats-Expected-Stream": {"REPORTS"}, "X-Firm": {"Acme"},
	}
	key := w.raw("BAD", h, body("BAD", "s3://reports/a.pdf"))
	other := w.publish("BAD", "s3://reports/b.pdf")
	worker := w.work()
	w.drain()
	worker.stop()
	l := w.letter(key)
	w.letter(other)
	want := nats.Header{"X-Firm": {"Acme"}}
	if diff := cmp.Diff(want, l.Foreign); diff != "" {
		t.Errorf("the publisher's headers in the letter (-want +got):\n%s", diff)
	}
	w.replay(l, dlq.Replayed)
	copied, err := w.queues.Copy(t.Context(), l.Site, key)
	w.must(err)
	for name := range copied.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "nats-") && !strings.HasPrefix(lower, "nats-expected-") {
			t.Errorf("the replay's copy has the header %s: %s", name, copied.Header.Get(name))
		}
	}
	w.work()
	w.drain()
	w.wantRuns(key, 2)
	w.ends(invariant.Tally{Dead: 2})
}

// More headers than a letter can hold are counted and left out.
func TestManyHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	big, many, fits := nats.Header{}, nats.Header{}, nats.Header{}
	for i := range 60 {
		big.Set(fmt.Sprint("X-", i), strings.Repeat("v", 1<<10-10))
	}
	for i := range 6000 {
		many.Set(fmt.Sprint("X", i), "")
	}
	for i := range 15 {
		fits.Set(fmt.Sprint("X-", i), strings.Repeat("v", 1<<10-10))
	}
	keys := map[int]report.Key{
		60:   w.raw("BAD", big, body("BAD", "s3://reports/big.pdf")),
		6000: w.raw("BAD", many, body("BAD", "s3://reports/many.pdf")),
		0:    w.raw("BAD", fits, body("BAD", "s3://reports/fits.pdf")),
	}
	room := report.MaxMessage - 16<<10 // with as many headers as a letter keeps, the largest message there can be
	full := fmt.Appendf(nil, `{"site_id":"BAD","source_uri":"full","x":%q}`, bytes.Repeat([]byte("x"), room-100))
	fullKey := w.raw("BAD", fits, full)
	neighbour := w.publish("TWR-1", "s3://reports/neighbour.pdf")
	w.work()
	w.drain()
	for dropped, key := range keys {
		l := w.letter(key)
		w.wantDeath(l, death{report.ClassPoison, report.CodeMalformedPDF, "no trailer", 1, 0})
		if kept := len(l.Foreign); l.Dropped != dropped || dropped > 0 && kept != 0 || dropped == 0 && kept != 15 {
			t.Errorf("%d headers were to be dropped: the letter says %d, and has %d", dropped, l.Dropped, kept)
		}
	}
	if l := w.letter(fullKey); !bytes.Equal(l.Body, full) || len(l.Foreign) != 15 {
		t.Errorf("the full letter has %d bytes and %d headers", len(l.Body), len(l.Foreign))
	}
	w.wantRuns(neighbour, 1)
	w.ends(invariant.Tally{Done: 1, Dead: 4})
}

// Header blocks that a client library would not send come from one that does not check.
func TestMalformedHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	raw := dial(t, w.srv)
	blocks := []string{
		"NATS/1.0\r\nBad Name: v\r\nX-Firm: Acme\r\n\r\n",
		"NATS/1.0\r\nno colon\r\nX-Firm: Acme\r\n\r\n",
		"NATS/1.0\r\n: no name\r\nX-Firm: Acme\r\n\r\n",
		"NATS/1.0\r\nÄrger: v\r\nX-Firm: Acme\r\n\r\n",
		"NATS/1.0\r\nX-Firm: a\rb\x00\x1b[31m\xff\r\n\r\n",
		"NATS/1.0\r\nX-Firm: Acme",
		"NATS/1.0 503 No Responders\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX-Firm: Acme\r\n\r\n",
		"\r\n\r\n",
		"NATS/1.0\r\nGuyline-Class: poison\r\n folded\r\n\r\n",
	}
	var dead, done []report.Key
	for i, block := range blocks {
		for site, keys := range map[string]*[]report.Key{"BAD": &dead, "TWR-1": &done} {
			payload := body(site, fmt.Sprint("s3://reports/", i, ".pdf"))
			raw.publish(t, "reports.submitted."+site, block, payload)
			*keys = append(*keys, w.record(payload))
		}
	}
	natstest.Eventually(t, "the server to store them", func() bool { return w.stored() == 2*len(blocks) })
	w.work()
	w.drain()
	for i := range blocks {
		w.wantRuns(done[i], 1)
		w.wantDeath(w.letter(dead[i]), death{report.ClassPoison, report.CodeMalformedPDF, "no trailer", 1, 0})
	}
	for _, key := range dead {
		w.replay(w.letter(key), dlq.Replayed)
	}
	w.drain()
	for i, key := range dead {
		if l := w.letter(key); l.Replays != 1 {
			t.Errorf("block %d: the letter says %d replays, want 1", i, l.Replays)
		}
	}
	w.ends(invariant.Tally{Done: len(blocks), Dead: len(blocks)})
}
