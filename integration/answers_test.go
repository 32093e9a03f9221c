package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// deafened is a connection whose answers can be lost.
func deafened(w *world) (jetstream.JetStream, *natstest.Deaf) {
	w.Helper()
	deaf := &natstest.Deaf{}
	js, err := jetstream.New(w.srv.Conn(w, nats.SetCustomDialer(deaf)))
	w.must(err)
	return js, deaf
}

// The answer to a write is lost, as when the leader dies right after it. Nobody waits for it as long as he could: the write
// is given up, and its repetition tells what became of it.
func TestAnswerToAWriteIsLost(t *testing.T) {
	t.Parallel()
	e := report.Event{SiteID: "TWR-9017", SourceURI: "s3://reports/twr9017_corrupt.pdf"}
	key, site := e.Key(), report.NewToken(e.SiteID)
	w := newWorld(t, succeed)
	js, deaf := deafened(w)
	ledger, err := keyvalue.OpenLedger(t.Context(), js)
	w.must(err)
	queues, trail := stream.New(js, w.cfg.Queues), audit.New(js)
	letters := dlq.New(js, queues, ledger, trail, dlq.DefaultReplayMax)
	patient, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, tt := range []struct {
		name  string
		write func() error
		again error
	}{
		{"commit", func() error {
			_, err := ledger.Commit(patient, keyvalue.Entry{State: keyvalue.Done, SiteID: e.SiteID, SourceURI: e.SourceURI})
			return err
		}, keyvalue.ErrConflict},
		{"letter", func() error {
			_, err := letters.Put(patient, dlq.Letter{Key: key, Site: site}, 0)
			return err
		}, dlq.ErrConflict},
		{"event", func() error { return trail.Append(patient, audit.Event{Kind: audit.Death, Key: key, SiteID: e.SiteID}) }, nil},
		{"requeue", func() error { return queues.Requeue(patient, site, key, nil, nil, stream.Carried{}, 0) }, stream.ErrFenced},
	} {
		deaf.Lose.Store(true)
		given := make(chan error, 1)
		go func() { given <- tt.write() }()
		natstest.Eventually(t, tt.name+" to be given up", func() bool { return len(given) == 1 })
		if err := <-given; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, its answer lost: %v", tt.name, err)
		}
		deaf.Lose.Store(false)
		if err := tt.write(); !errors.Is(err, tt.again) {
			t.Errorf("%s once more: %v, want %v", tt.name, err, tt.again)
		}
	}
	w.ended = true // these writes make no whole
}

// The answer to a publisher is lost: the report is offered again, and stored once.
func TestAnswerToAPublisherIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	js, deaf := deafened(w)
	e := report.Event{SiteID: "TWR-1", SourceURI: "a.pdf"}
	deaf.Lose.Store(true)
	published := make(chan error, 1)
	go func() {
		_, err := stream.Publish(t.Context(), js, e, body(e.SiteID, e.SourceURI))
		published <- err
	}()
	natstest.Eventually(t, "the report to be stored", func() bool { return w.stored() == 1 })
	deaf.Lose.Store(false)
	if err := <-published; err != nil {
		t.Error(err)
	}
	w.published = append(w.published, e.Key())
	if n := w.stored(); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
	w.ends(invariant.Tally{Waiting: 1})
}
