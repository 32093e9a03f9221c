package stream_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A report is found wherever it waits, behind and between strangers' messages, and one that is not there is not found.
func TestFind(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	q := stream.New(js, config())
	site := report.NewToken("TWR 1")
	find := func(key report.Key) (stream.Message, error) { return q.Find(t.Context(), site, key) }
	absent, _ := event("absent")
	if _, err := find(absent.Key()); !errors.Is(err, jsapi.ErrNotFound) {
		t.Errorf("in empty queues: %v", err)
	}
	const n = 1200
	for i := range n {
		_, body := event(fmt.Sprint(i))
		if i%100 == 0 {
			body = fmt.Appendf(nil, "garbled %d", i)
		}
		if _, err := js.PublishAsync("reports.submitted.any", body); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	for seq := uint64(500); seq < 800; seq++ {
		if err := jsapi.Delete(t.Context(), js, stream.Reports, seq); err != nil {
			t.Fatal(err)
		}
	}
	copied, body := event("copied")
	if err := q.Requeue(t.Context(), site, copied.Key(), nil, body, stream.Carried{PublishedAt: time.Now()}, 0); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		uri  string
		want stream.Ref
	}{
		{"absent", stream.Ref{}},
		{"600", stream.Ref{}},
		{"1", stream.Ref{Stream: stream.Reports, Sequence: 2}},
		{"490", stream.Ref{Stream: stream.Reports, Sequence: 491}},
		{"999", stream.Ref{Stream: stream.Reports, Sequence: 1000}},
		{"1199", stream.Ref{Stream: stream.Reports, Sequence: 1200}},
		{"copied", stream.Ref{Stream: stream.Requeued, Sequence: 1}},
	} {
		e, _ := event(tt.uri)
		m, err := find(e.Key())
		if tt.want.Stream == "" && !errors.Is(err, jsapi.ErrNotFound) || tt.want.Stream != "" && err != nil || m.Ref != tt.want {
			t.Errorf("%s: got %v, %v; want %v", tt.uri, m.Ref, err, tt.want)
		}
	}
	if m, err := find(report.UndecodableKey([]byte("garbled 300"))); err != nil || m.Ref.Sequence != 301 {
		t.Errorf("garbled: %v, %v", m.Ref, err)
	}
	js.Conn().Close()
	if _, err := find(absent.Key()); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("without a connection: %v", err)
	}
}

// What was glimpsed may have left since.
func TestGlimpseOfWhatHasLeft(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	q := stream.New(js, config())
	due := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		e, _ := event(fmt.Sprint(i))
		if _, err := stream.Publish(t.Context(), js, e, fmt.Appendf(nil, `{"site_id":"TWR 1","source_uri":"%d","due":"2026-12-01T00:00:00Z"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for g, err := range q.Glimpses(t.Context(), stream.Reports) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if m, err := q.Submitted(t.Context(), g); err != nil || m.Key != g.Key || !g.Due.Equal(due) {
			t.Errorf("glimpse %+v: %v, %v", g, m.Ref, err)
		}
		if err := jsapi.Delete(t.Context(), js, stream.Reports, uint64(seen)); err != nil {
			t.Fatal(err)
		}
		if m, err := q.Submitted(t.Context(), g); !errors.Is(err, jsapi.ErrNotFound) {
			t.Errorf("it has left: got %v, %v", m.Ref, err)
		}
	}
	if seen != 3 {
		t.Errorf("%d glimpses, want 3", seen)
	}
}
