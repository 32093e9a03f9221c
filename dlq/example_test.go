package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A letter is put, listed, and given up for a reason.
func Example() {
	if err := example(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// TWR-9017 068af75aea2c poison malformed-pdf: unparseable structure
	// discarded
	// death: unparseable structure
	// discard: the tower was dismantled (ada)
}

func example(ctx context.Context) error {
	js, closeAll, err := server()
	if err != nil {
		return err
	}
	defer closeAll()
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		return err
	}
	trail := audit.New(js)
	letters := dlq.New(js, stream.New(js, stream.Config{}), ledger, trail, dlq.DefaultReplayMax)

	event := report.Event{SiteID: "TWR-9017", SourceURI: "s3://reports/twr9017_corrupt.pdf"}
	reason := report.Clean("unparseable structure")
	if _, err := letters.Put(ctx, dlq.Letter{
		Key: event.Key(), Site: report.NewToken(event.SiteID), Class: report.ClassPoison, Code: report.CodeMalformedPDF,
		Reason: reason, Hash: report.AuditHash(event.Key(), reason), Source: stream.Ref{Stream: stream.Reports, Sequence: 2},
		Body: []byte(`{"site_id":"TWR-9017","source_uri":"s3://reports/twr9017_corrupt.pdf"}`),
	}, 0); err != nil {
		return err
	}

	for l, err := range letters.List(ctx, dlq.Filter{Site: "TWR-9017", Class: report.ClassPoison}) {
		if err != nil {
			return err
		}
		fmt.Printf("%s %s %s %s: %s\n", l.SiteID(), l.Key.Short(), l.Class, l.Code, l.Reason)
		outcome, err := letters.Discard(ctx, l.Sequence, dlq.By{Actor: "ada", Reason: "the tower was dismantled"})
		if err != nil {
			return err
		}
		fmt.Println(outcome)
	}

	for e, err := range trail.All(ctx) {
		if err != nil {
			return err
		}
		if e.Actor == "" {
			fmt.Printf("%s: %s\n", e.Kind, e.Reason)
		} else {
			fmt.Printf("%s: %s (%s)\n", e.Kind, e.Reason, e.Actor)
		}
	}
	return nil
}

// server starts an embedded server in a temporary directory and sets it up.
func server() (js jetstream.JetStream, closeAll func(), err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "guyline-example-")
	if err != nil {
		return nil, nil, err
	}
	store, err := embedded.Open(ctx, embedded.Config{Dir: dir, Create: true, LazySync: true})
	if err != nil {
		return nil, nil, err
	}
	nc, err := store.Connect()
	if err != nil {
		return nil, nil, err
	}
	if js, err = jetstream.New(nc); err != nil {
		return nil, nil, err
	}
	closeAll = func() {
		nc.Close()
		_ = store.Close()
		_ = os.RemoveAll(dir)
	}
	queues := stream.Config{Replicas: 1, QueueBytes: 1 << 30, MaxAttempts: 4, MaxAckPending: 1000}
	return js, closeAll, errors.Join(stream.Setup(ctx, js, queues), keyvalue.Setup(ctx, js, 1), audit.Setup(ctx, js, 1), dlq.Setup(ctx, js, 1))
}
