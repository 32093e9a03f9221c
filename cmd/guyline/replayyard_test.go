package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// replayYard is a server on which commands act, and a worker in this process whose handler follows a script.
type replayYard struct {
	*shop
	srv       *natstest.Server
	js        jetstream.JetStream
	letters   *dlq.Queue
	published []report.Key

	mu   sync.Mutex
	runs map[report.Key]int
}

// lives is the script in which a report dies at its first run and lands at the second.
func lives(_ report.Event, run int) error {
	if run == 1 {
		return report.Poison(report.CodeNotFound, errors.New("no such object"))
	}
	return nil
}

// diesAgain is the script in which no report ever lands.
func diesAgain(report.Event, int) error {
	return report.Poison(report.CodeForbidden, errors.New("no entry"))
}

func newReplayYard(t *testing.T, env ...string) *replayYard {
	t.Helper()
	srv := natstest.Start(t)
	y := &replayYard{
		shop: newShop(t, append(env, "GUYLINE_NATS_URL="+srv.URL())...), srv: srv, js: srv.JetStream(t), runs: map[report.Key]int{},
	}
	cfg := consumer.DefaultConfig()
	if err := consumer.Setup(t.Context(), y.js, cfg.Queues); err != nil {
		t.Fatal(err)
	}
	ledger, err := keyvalue.OpenLedger(t.Context(), y.js)
	if err != nil {
		t.Fatal(err)
	}
	y.letters = dlq.New(y.js, stream.New(y.js, cfg.Queues), ledger, audit.New(y.js), cfg.ReplayMax)
	return y
}

// work starts a worker and returns what stops it.
func (y *replayYard) work(t *testing.T, script func(report.Event, int) error) (stop func()) {
	t.Helper()
	c, err := consumer.Open(t.Context(), y.srv.JetStream(t), func(_ context.Context, e report.Event) (report.Result, error) {
		y.mu.Lock()
		y.runs[e.Key()]++
		run := y.runs[e.Key()]
		y.mu.Unlock()
		return nil, script(e, run)
	}, consumer.DefaultConfig(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// dead publishes n reports and lets a worker bury them.
func (y *replayYard) dead(t *testing.T, n int) {
	t.Helper()
	stop := y.work(t, diesAgain)
	for i := range n {
		e := report.Event{SiteID: "TWR-1", SourceURI: fmt.Sprintf("s3://reports/%d.pdf", i)}
		if _, err := stream.Publish(t.Context(), y.js, e, fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI)); err != nil {
			t.Fatal(err)
		}
		y.published = append(y.published, e.Key())
	}
	natstest.Eventually(t, "the reports to die", func() bool { return y.stored(t, dlq.Stream) == n && y.stored(t, stream.Reports) == 0 })
	stop()
}

// stored is how many messages a stream holds.
func (y *replayYard) stored(t *testing.T, name string) int {
	t.Helper()
	s, err := y.js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// ran is how often each report's handler ran, and how many reports ran so often.
func (y *replayYard) ran() map[int]int {
	y.mu.Lock()
	defer y.mu.Unlock()
	out := map[int]int{}
	for _, key := range y.published {
		out[y.runs[key]]++
	}
	return out
}
