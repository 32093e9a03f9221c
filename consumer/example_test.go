package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A handler of one's own: it counts the letters of the site's name.
func ExampleOpen() {
	js, shutdown := startServer() // or connect to one: nats.Connect, jetstream.New
	defer shutdown()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	handler := func(ctx context.Context, e report.Event) (report.Result, error) {
		if e.SiteID == "TWR-9017" {
			return nil, report.Poison(report.CodeMalformedPDF, fmt.Errorf("cannot read %s", e.SourceURI))
		}
		return report.NewResult(map[string]int{"letters": len(e.SiteID)})
	}
	cfg := consumer.DefaultConfig()
	cfg.Workers = 1
	cfg.Observe = func(o consumer.Outcome) {
		fmt.Println(o.SiteID, o.Kind)
		if o.SiteID == "TWR-9017" {
			stop() // this was the last report
		}
	}
	if err := consumer.Setup(ctx, js, cfg.Queues); err != nil {
		fmt.Println(err)
	}
	for _, site := range []string{"TWR-8842", "TWR-9017"} {
		e := report.Event{SiteID: site, SourceURI: "s3://reports/" + site + ".pdf"}
		if _, err := stream.Publish(ctx, js, e, fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI)); err != nil {
			fmt.Println(err)
		}
	}
	c, err := consumer.Open(ctx, js, handler, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Run(ctx))
	// Output:
	// TWR-8842 succeeded
	// TWR-9017 buried
	// <nil>
}

// startServer starts a server in this process, with its data in a temporary directory.
func startServer() (jetstream.JetStream, func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true, JetStreamMaxStore: 1 << 50})
	if err != nil {
		panic(err)
	}
	s.Start()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		panic(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	return js, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}
