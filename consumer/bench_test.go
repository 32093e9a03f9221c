package consumer

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// BenchmarkProcess publishes reports and works them, with a handler that does nothing and everything else on. Publisher, server and worker
// are in this process: docs/performance.md tells them apart.
func BenchmarkProcess(b *testing.B) {
	for _, workers := range []int{8, 64, 1024} {
		b.Run(fmt.Sprint(workers, " workers"), func(b *testing.B) {
			js := natstest.Start(b).JetStream(b)
			cfg := DefaultConfig()
			cfg.Workers = workers
			if err := Setup(b.Context(), js, cfg.Queues); err != nil {
				b.Fatal(err)
			}
			done := make(chan Outcome, 1024)
			cfg.Observe = func(o Outcome) { done <- o }
			c, err := Open(b.Context(), js, func(context.Context, report.Event) (report.Result, error) { return report.Result(`{"pages":12}`), nil },
				cfg, slog.New(slog.NewJSONHandler(io.Discard, nil)))
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			b.ReportAllocs()
			sent, settled := 0, 0
			for b.Loop() { // a window of reports, so that the worker finds what it can take
				e := report.Event{SiteID: "TWR-8842", SourceURI: fmt.Sprintf("s3://reports/%d.pdf", sent)}
				sent++
				if _, err := js.PublishMsgAsync(&nats.Msg{
					Subject: "reports.submitted.TWR-8842", Data: fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI),
				}); err != nil {
					b.Fatal(err)
				}
				for ; sent-settled >= 2*workers; settled++ {
					<-done
				}
			}
			b.StartTimer() // Loop has stopped it, and the last window belongs to the count
			for ; settled < sent; settled++ {
				<-done
			}
			b.StopTimer()
			stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
