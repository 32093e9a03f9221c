package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func config() stream.Config {
	return stream.Config{
		Replicas: 1, QueueBytes: 8 << 30, Duplicates: 2 * time.Minute,
		AckWait: 30 * time.Second, MaxAttempts: 4, MaxAckPending: 20000,
	}
}

func setUp(t *testing.T, cfg stream.Config) jetstream.JetStream {
	t.Helper()
	js := natstest.Start(t).JetStream(t)
	if err := stream.Setup(t.Context(), js, cfg); err != nil {
		t.Fatal(err)
	}
	return js
}

func event(uri string) (report.Event, []byte) {
	e := report.Event{SiteID: "TWR 1", SourceURI: uri}
	return e, fmt.Appendf(nil, `{"site_id":"TWR 1","source_uri":%q}`, uri)
}

func TestPublish(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	e, body := event("a.pdf")
	if dup, err := stream.Publish(t.Context(), js, e, body); dup || err != nil {
		t.Fatalf("first publish: duplicate %v, %v", dup, err)
	}
	if dup, err := stream.Publish(t.Context(), js, e, body); !dup || err != nil {
		t.Fatalf("second publish: duplicate %v, %v", dup, err)
	}
	m, err := stream.New(js, config()).Next(t.Context(), stream.Reports, 1)
	if err != nil || m.Key != e.Key() || m.Subject != "reports.submitted.TWR=201" || m.Site != "TWR=201" {
		t.Fatalf("stored %+v, %v", m, err)
	}
}

func TestPublishRefused(t *testing.T) {
	t.Parallel()
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		cfg := config()
		cfg.QueueBytes = 2000
		js := setUp(t, cfg)
		var rows []report.Row
		for i := range 50 {
			e, body := event(fmt.Sprint(i))
			rows = append(rows, report.Row{Line: i + 1, Event: e, Body: body})
		}
		accepted, full := 0, 0
		for r := range stream.PublishAll(t.Context(), js, slices.Values(rows), nil) {
			switch {
			case r.Err == nil:
				accepted++
			case errors.Is(r.Err, stream.ErrQueueFull):
				full++
			default:
				t.Error(r.Err)
			}
		}
		if accepted == 0 || full == 0 || accepted+full != 50 {
			t.Errorf("accepted %d, refused as full %d of 50", accepted, full)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		js := setUp(t, config())
		for _, size := range []int{report.MaxMessage, 2 << 20} {
			e, _ := event("a")
			if _, err := stream.Publish(t.Context(), js, e, make([]byte, size)); !errors.Is(err, stream.ErrTooLarge) {
				t.Errorf("%d bytes: got %v, want ErrTooLarge", size, err)
			}
		}
	})
	t.Run("no stream", func(t *testing.T) {
		t.Parallel()
		js := natstest.Start(t).JetStream(t)
		e, body := event("a")
		if _, err := stream.Publish(t.Context(), js, e, body); !errors.Is(err, stream.ErrNoQueue) {
			t.Errorf("got %v, want ErrNoQueue", err)
		}
	})
}

// A requeued and a parked copy of one report exclude each other, also outside any duplicate window.
func TestRequeueFence(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	q := stream.New(js, config())
	e, body := event("a.pdf")
	site, key := report.NewToken(e.SiteID), e.Key()
	carried := stream.Carried{
		PublishedAt: time.Unix(1, 5).UTC(), FirstFailedAt: time.Unix(2, 0).UTC(), Replays: 2, ReplayOf: 7, Reopened: 9, Attempts: 3,
		StandsFor: stream.Ref{Stream: stream.Reports, Sequence: 5},
		Verdict:   &stream.Verdict{Class: report.ClassPoison, Code: "no-pages", Reason: "it has no pages", FailedAt: time.Unix(3, 0).UTC()},
	}
	put := func(own uint64) error {
		return q.Requeue(t.Context(), site, key, nats.Header{"X-Firm": {"Acme"}, "Nats-Rollup": {"all"}, "Guyline-Replays": {"99"}}, body, carried, own)
	}
	if _, err := q.Copy(t.Context(), site, key); !errors.Is(err, jsapi.ErrNotFound) {
		t.Fatalf("a copy before the first: %v", err)
	}
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	for _, own := range []uint64{0, 2} {
		if err := put(own); !errors.Is(err, stream.ErrFenced) {
			t.Errorf("a second copy that expects %d: got %v, want ErrFenced", own, err)
		}
	}
	m, err := q.Copy(t.Context(), site, key)
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Body) != string(body) || m.Header.Get("X-Firm") != "Acme" || m.Header.Get("Nats-Rollup") != "" ||
		m.Header.Get("Nats-Msg-Id") != "" || m.Identity != carried.StandsFor || !m.PublishedAt.Equal(carried.PublishedAt) ||
		*m.Carried.Verdict != *carried.Verdict {
		t.Errorf("the copy is %+v", m)
	}
	m.Carried.Verdict = carried.Verdict
	if !cmp.Equal(m.Carried, carried) {
		t.Errorf("it carries %+v, want %+v", m.Carried, carried)
	}
	if err := put(m.Ref.Sequence); err != nil {
		t.Errorf("replace the copy by its own sequence: %v", err)
	}
	if _, err := js.Publish(t.Context(), "reports.parked."+string(site)+"."+string(report.NewKey("x", "y")), body,
		jetstream.WithScheduleAt(time.Now().Add(time.Hour)), jetstream.WithScheduleTarget("reports.requeued."+string(site)+"."+string(report.NewKey("x", "y")))); err != nil {
		t.Fatal(err)
	}
	if err := q.Requeue(t.Context(), site, report.NewKey("x", "y"), nil, body, stream.Carried{}, 0); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("requeue beside a parked copy: got %v, want ErrFenced", err)
	}
	if st, err := q.State(t.Context(), stream.Requeued); err != nil || st.Parked != 1 || st.Stranded != 0 {
		t.Errorf("state %+v, %v; want 1 parked", st, err)
	}
}

// What publishers write into Guyline-* headers has no effect on REPORTS.
func TestCarriedOnlyOnRequeue(t *testing.T) {
	t.Parallel()
	h := nats.Header{"Guyline-Attempts": {"99"}, "Guyline-Class": {"poison"}, "Guyline-Published-At": {"2020-01-01T00:00:00Z"}}
	_, body := event("a")
	now := time.Now()
	if m := stream.Read(stream.Ref{Stream: stream.Reports, Sequence: 1}, "reports.submitted.a", h, body, now); !cmp.Equal(m.Carried, stream.Carried{}) || !m.PublishedAt.Equal(now) {
		t.Errorf("carried %+v, published %v", m.Carried, m.PublishedAt)
	}
}

func TestSetupTwiceAndDrift(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	if err := stream.Setup(t.Context(), js, config()); err != nil {
		t.Fatalf("the same again: %v", err)
	}
	other := config()
	other.MaxAttempts, other.AckWait = 6, time.Minute
	if _, err := stream.New(js, other).Worker(t.Context(), stream.Reports); !errors.Is(err, stream.ErrDrift) ||
		!strings.Contains(err.Error(), "GUYLINE_MAX_ATTEMPTS=6 needs 8") {
		t.Errorf("a worker with other settings: %v", err)
	}
	e, body := event("a")
	if _, err := stream.Publish(t.Context(), js, e, body); err != nil {
		t.Fatal(err)
	}
	c, err := stream.New(js, config()).Worker(t.Context(), stream.Reports)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(1)
	if err != nil {
		t.Fatal(err)
	}
	msg := <-batch.Messages()
	if err := stream.Setup(t.Context(), js, other); err == nil || !strings.Contains(err.Error(), "1 reports are in work") {
		t.Errorf("setup that would move pending delays: %v", err)
	}
	if err := msg.DoubleAck(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := stream.Setup(t.Context(), js, other); err != nil {
		t.Errorf("setup while nothing is in work: %v", err)
	}
	if _, err := stream.New(js, other).Worker(t.Context(), stream.Requeued); err != nil {
		t.Errorf("a worker with the new settings: %v", err)
	}
}

func TestWorkerNotSetUp(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if _, err := stream.New(js, config()).Worker(t.Context(), stream.Reports); !errors.Is(err, stream.ErrNotSetUp) {
		t.Errorf("got %v, want ErrNotSetUp", err)
	}
}

// One publisher cannot erase the queue or smuggle a schedule into it.
func TestPublishersCannotRollUp(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	e, body := event("a")
	if _, err := stream.Publish(t.Context(), js, e, body); err != nil {
		t.Fatal(err)
	}
	for _, h := range []nats.Header{{"Nats-Rollup": {"all"}}, {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"reports.submitted.b"}}} {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "reports.submitted.a", Header: h, Data: body}); err == nil {
			t.Errorf("a message with %v was accepted", h)
		}
	}
	if st, err := stream.New(js, config()).State(t.Context(), stream.Reports); err != nil || st.Stored != 1 {
		t.Errorf("state %+v, %v; want 1 stored", st, err)
	}
}
