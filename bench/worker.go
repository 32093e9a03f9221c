package bench

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/loglines"
)

// openWorker opens the product as `guyline run` does. Its log goes to a file in dir, as JSON, which is removed when the returned function,
// [consumer.Consumer.Run], is over.
func openWorker(ctx context.Context, js jetstream.JetStream, h consumer.Handler, cfg consumer.Config, dir string) (run func(context.Context) error, err error) {
	file, err := os.CreateTemp(dir, "guyline-bench-*.log")
	if err != nil {
		return nil, err
	}
	lines := loglines.New(file)
	remove := func() error { return errors.Join(lines.Flush(), file.Close(), os.Remove(file.Name())) }
	c, err := consumer.Open(ctx, js, h, cfg, slog.New(loglines.Handler(slog.NewJSONHandler(lines, nil), lines)))
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return func(ctx context.Context) error {
		if cfg.InFlight == "" { // no store in this process: as `guyline run` does
			defer debug.SetGCPercent(debug.SetGCPercent(consumer.GCPercent))
		}
		return errors.Join(c.Run(ctx), remove())
	}, nil
}
