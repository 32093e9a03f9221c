package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/loglines"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// ourJob works the backlog with the product as it is, by its defaults but for the number of workers: look-up before the work, ledger, retry
// bookkeeping, heartbeats, sweep, time-outs, panic guard, and log lines at info written to a file as JSON. It is told whether the server
// syncs each write.
func ourJob(workers int, synced bool) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) error {
		nc, js, err := connectNATS(j)
		if err != nil {
			return err
		}
		defer nc.Close()
		cfg := consumer.DefaultConfig()
		cfg.Workers, cfg.SyncedStore = workers, synced
		if err := consumer.Setup(ctx, js, cfg.Queues); err != nil {
			return err
		}
		if err := publish(ctx, js, j, func(e event) string { return "reports.submitted." + string(report.NewToken(e.SiteID)) }); err != nil {
			return err
		}
		if synced {
			if err := syncAlways(ctx, nc, j); err != nil {
				return err
			}
		}
		file, err := os.Create(filepath.Join(j.dir, "worker.log"))
		if err != nil {
			return err
		}
		defer file.Close()
		cfg.Observe = func(o consumer.Outcome) {
			switch o.Kind {
			case consumer.Succeeded, consumer.Duplicate:
				j.settled(o.Kind == consumer.Duplicate)
			default:
				_ = j.fail(fmt.Errorf("%s %s: %s %s", o.Kind, o.Key, o.Code, o.Reason))
			}
		}
		handle := func(context.Context, report.Event) (report.Result, error) { return report.Result(answer), nil }
		if err := j.meter.begin(); err != nil {
			return err
		}
		lines := loglines.New(file)
		debug.SetGCPercent(consumer.GCPercent) // as `guyline run` does
		c, err := consumer.Open(ctx, js, handle, cfg, slog.New(loglines.Handler(slog.NewJSONHandler(lines, nil), lines)))
		if err != nil {
			return err
		}
		working, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(working) }()
		err = j.finish(ctx, func() (bool, error) {
			s, err := js.Stream(ctx, stream.Reports) // a work queue: what is settled is deleted
			return err == nil && s.CachedInfo().State.Msgs == 0, err
		})
		err = errors.Join(err, j.meter.end())
		stop()
		if err = errors.Join(err, <-ended); err != nil {
			return err
		}
		ledger, err := keyvalue.OpenLedger(ctx, js)
		if err != nil {
			return err
		}
		stored, err := ledger.Len(ctx)
		if err != nil {
			return err
		}
		return j.check(int(stored))
	}
}
