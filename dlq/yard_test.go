package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// yard is the dead-letter queue and its neighbours, on one connection.
type yard struct {
	*Queue
	js jetstream.JetStream
}

var queueConfig = stream.Config{
	Replicas: 1, QueueBytes: 8 << 30, Duplicates: 2 * time.Minute, AckWait: 30 * time.Second, MaxAttempts: 4, MaxAckPending: 20000,
}

var operator = By{Actor: "ada@office", Reason: "the source is back"}

func newYard(t testing.TB) (yard, *natstest.Server) {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	ctx := context.Background()
	err := errors.Join(stream.Setup(ctx, js, queueConfig), keyvalue.Setup(ctx, js, 1), audit.Setup(ctx, js, 1), Setup(ctx, js, 1))
	if err != nil {
		t.Fatal(err)
	}
	return enter(t, srv), srv
}

// enter is another process at the same yard.
func enter(t testing.TB, srv *natstest.Server) yard {
	t.Helper()
	js := srv.JetStream(t)
	ledger, err := keyvalue.OpenLedger(context.Background(), js)
	if err != nil {
		t.Fatal(err)
	}
	return yard{New(js, stream.New(js, queueConfig), ledger, audit.New(js), DefaultReplayMax), js}
}

// publish hands a report over and returns its message.
func (y yard) publish(t testing.TB, uri string) stream.Message {
	t.Helper()
	e := report.Event{SiteID: "TWR 1", SourceURI: uri}
	body := fmt.Appendf(nil, `{"site_id":"TWR 1", "source_uri":%q, "metadata":{"firm":"Åcme & <Sons>"}}`, uri)
	if dup, err := stream.Publish(context.Background(), y.js, e, body); err != nil || dup {
		t.Fatalf("publish %s: duplicate %v, %v", uri, dup, err)
	}
	raw, err := jsapi.Last(context.Background(), y.js, stream.Reports, "reports.submitted.>")
	if err != nil {
		t.Fatal(err)
	}
	return stream.ReadStored(stream.Reports, raw)
}

// letterOf is the letter that a worker writes when this message dies.
func letterOf(m stream.Message, reason string) Letter {
	now := time.Now().UTC()
	return Letter{
		Key: m.Key, Site: m.Site, Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: reason, Hash: report.AuditHash(m.Key, reason),
		Attempts: 1, Subject: m.Subject, Source: m.Identity, PublishedAt: m.PublishedAt, FirstFailedAt: now, FailedAt: now,
		Replays: m.Carried.Replays, Reopened: m.Carried.Reopened, Upstream: "s3://reports", Worker: "host/4711", Version: "0.1.0",
		Foreign: map[string][]string{"X-Firm": {"Åcme"}}, Body: m.Body,
	}
}

// put writes a letter in place of the report's present one, if there is one.
func (y yard) put(t testing.TB, l Letter) Letter {
	t.Helper()
	current, err := y.Current(context.Background(), l.Site, l.Key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if l.Sequence, err = y.Put(context.Background(), l, current.Sequence); err != nil {
		t.Fatal(err)
	}
	return l
}

// bury lets a message die: letter, audit event, and the message is gone.
func (y yard) bury(t testing.TB, m stream.Message, reason string) Letter {
	t.Helper()
	l := y.put(t, letterOf(m, reason))
	if err := errors.Join(y.RecordDeath(context.Background(), l), y.queues.Delete(context.Background(), m.Ref)); err != nil {
		t.Fatal(err)
	}
	return l
}

// die publishes a report and lets it die.
func (y yard) die(t testing.TB, uri string) Letter {
	t.Helper()
	return y.bury(t, y.publish(t, uri), "unparseable structure in "+uri)
}

// replay expects an outcome.
func (y yard) replay(t testing.TB, l Letter, want Outcome) {
	t.Helper()
	if got, err := y.Replay(context.Background(), l.Sequence, operator); got != want || err != nil {
		t.Errorf("replay: got %q, %v; want %q", got, err, want)
	}
}

// queued is what both queues hold, parked reports too.
func (y yard) queued(t testing.TB) (found []stream.Message) {
	t.Helper()
	for _, name := range stream.Names() {
		for seq := uint64(1); ; {
			raw, err := jsapi.Next(context.Background(), y.js, name, "reports.>", seq)
			if errors.Is(err, jsapi.ErrNotFound) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, stream.ReadStored(name, raw))
			seq = raw.Sequence + 1
		}
	}
	return found
}

// gone expects that no letter is left.
func (y yard) gone(t testing.TB) {
	t.Helper()
	for l, err := range y.List(context.Background(), Filter{}) {
		t.Errorf("letter %d of %s is left, %v", l.Sequence, l.Key.Short(), err)
	}
}

// trailOf expects the kinds of a report's audit events, in order.
func (y yard) trailOf(t testing.TB, l Letter, want ...audit.Kind) (events []audit.Event) {
	t.Helper()
	var got []audit.Kind
	for e, err := range y.trail.Log(context.Background(), l.Site, l.Key) {
		if err != nil {
			t.Fatal(err)
		}
		events, got = append(events, e), append(got, e.Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the trail has %v, want %v", got, want)
	}
	return events
}
