package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// BenchmarkProcess works reports with a handler that does nothing and everything else on: server and worker are in this process.
func BenchmarkProcess(b *testing.B) {
	for _, workers := range []int{1, 8, 64, 1024} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			js := natstest.Start(b).JetStream(b)
			cfg := DefaultConfig()
			cfg.Workers = workers
			if err := Setup(b.Context(), js, cfg.Queues); err != nil {
				b.Fatal(err)
			}
			for i := range b.N {
				e := report.Event{SiteID: "TWR-8842", SourceURI: fmt.Sprintf("s3://reports/%d.pdf", i)}
				if _, err := stream.Publish(b.Context(), js, e, fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI)); err != nil {
					b.Fatal(err)
				}
			}
			out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer out.Close()
			ctx, done := context.WithCancel(b.Context())
			var left atomic.Int64
			left.Store(int64(b.N))
			cfg.Observe = func(Outcome) {
				if left.Add(-1) == 0 {
					done()
				}
			}
			c, err := Open(b.Context(), js, func(context.Context, report.Event) (report.Result, error) { return report.Result(`{"pages":12}`), nil },
				cfg, slog.New(slog.NewJSONHandler(out, nil)))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := c.Run(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}
