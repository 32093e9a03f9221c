package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A client library may take an empty body with a Status header for a word of the server's. A worker does not: it is buried like
// anything that cannot be decoded. Its neighbours do not suffer.
func TestSwallowedMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed, func(cfg *consumer.Config) { cfg.Queues.MaxAttempts = 1 })
	hostile := []nats.Header{
		{"Status": {"503"}},
		{"Status": {"404"}, "Description": {"No Messages"}},
		{"Status": {"409"}, "Description": {"Consumer Deleted"}},
		{"Status": {"100"}, "Description": {"Idle Heartbeat"}},
		{"Status": {"?"}, "Description": {"forged"}},
	}
	var neighbours []report.Key
	for i, h := range hostile {
		w.raw("TWR-1", h, nil)
		neighbours = append(neighbours, w.publish("TWR-1", fmt.Sprint("s3://reports/", i, ".pdf")))
	}
	raw := dial(t, w.srv)
	raw.publish(t, "reports.submitted.TWR-1", "NATS/1.0 503\r\n\r\n", nil)
	natstest.Eventually(t, "the server to store it", func() bool { return w.stored() == 2*len(hostile)+1 })
	w.work()
	for _, key := range neighbours {
		w.lands(key)
		w.wantRuns(key, 1)
	}
	w.drain()
	key := report.UndecodableKey(nil) // an empty body is one report, however often it is handed over
	w.wantDeath(w.letter(key), death{report.ClassPoison, report.CodeUndecodable,
		"undecodable event: it is not JSON: it is empty or cut off", 0, 0})
	if deaths := w.events(key, audit.Death); len(deaths) != len(hostile)+1 {
		t.Errorf("the trail has %d deaths of empty bodies, want %d", len(deaths), len(hostile)+1)
	}
	w.ends(invariant.Tally{Done: len(neighbours), Dead: 1})
}

// A Status header does no harm to a message that has a body.
func TestStatusHeaderWithABody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	var keys []report.Key
	for i, status := range []string{"100", "404", "408", "409", "503"} {
		h := nats.Header{"Status": {status}, "Description": {"Consumer Deleted"}}
		keys = append(keys, w.raw("TWR-1", h, body("TWR-1", fmt.Sprint(i))), w.raw("BAD", h, body("BAD", fmt.Sprint(i))))
	}
	w.work()
	w.drain()
	for _, key := range keys {
		w.wantRuns(key, 1)
	}
	w.ends(invariant.Tally{Done: 5, Dead: 5})
}

// Work that takes longer than all deliveries together is not given to anybody else.
func TestWorkOutlivesAckWait(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	w := newWorld(t, func(ctx context.Context, e report.Event, _ int) (report.Result, error) {
		select {
		case <-finish:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, func(cfg *consumer.Config) { cfg.Queues.MaxAttempts, cfg.Queues.AckWait = 1, 4*time.Second })
	long := w.publish("TWR-1", "s3://reports/long.pdf")
	w.work()
	w.work()
	natstest.Eventually(t, "the work to begin", func() bool { return w.ran(long) == 1 })
	// Without heartbeats the server would give up on it after MaxDeliver times AckWait.
	<-time.After(time.Duration(w.cfg.Queues.MaxAttempts+stream.SpareDeliveries+1) * w.cfg.Queues.AckWait)
	if s := w.queue(stream.Reports); s.InWork != 1 {
		t.Errorf("%d reports are in work, want 1", s.InWork)
	}
	close(finish)
	w.drain()
	w.wantRuns(long, 1)
	if e := w.entry(long); e.Attempts != 1 {
		t.Errorf("the ledger says %d attempts, want 1", e.Attempts)
	}
	w.ends(invariant.Tally{Done: 1})
}
