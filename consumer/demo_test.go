package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// quick is a configuration whose delays suit a test.
func quick() consumer.Config {
	cfg := consumer.DefaultConfig()
	cfg.Workers = 4
	cfg.Queues.AckWait = 2 * time.Second
	cfg.AttemptTimeout = 5 * time.Second
	cfg.Backoff = report.Backoff{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond, Jitter: 5 * time.Millisecond}
	cfg.Sweep = 100 * time.Millisecond
	return cfg
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	cfg := quick()
	if err := consumer.Setup(t.Context(), js, cfg.Queues); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[string]int{}
	cfg.Observe = func(o consumer.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		got[fmt.Sprint(o.SiteID, " ", o.Kind, " ", o.Code)]++
	}
	runs := map[string]int{}
	h := func(ctx context.Context, e report.Event) (report.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		runs[e.SiteID]++
		if e.SiteID == "TWR-9017" {
			return nil, report.Poison(report.CodeMalformedPDF, errors.New("unparseable structure in "+e.SourceURI))
		}
		if runs[e.SiteID] == 1 {
			return nil, report.Transient(report.CodeTimeout, errors.New("time-out"))
		}
		return report.NewResult(map[string]int{"pages": 12})
	}
	c, err := consumer.Open(t.Context(), js, h, cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []report.Event{{SiteID: "TWR-8842", SourceURI: "s3://reports/twr8842_q2.pdf"}, {SiteID: "TWR-9017", SourceURI: "s3://reports/twr9017_corrupt.pdf"}} {
		if _, err := stream.Publish(t.Context(), js, e, fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.PublishMsg(t.Context(), swallowed()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	natstest.Eventually(t, "all settled", func() bool {
		st, err := stream.New(js, cfg.Queues).State(context.Background(), stream.Reports)
		return err == nil && st.Stored == 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	t.Log(got, runs)
}

func swallowed() *nats.Msg {
	return &nats.Msg{Subject: "reports.submitted.x", Header: nats.Header{"Status": {"503"}}}
}
