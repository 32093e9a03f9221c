package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverArgs is an event as a job of River, which decodes it itself.
type riverArgs struct{ event }

func (riverArgs) Kind() string { return "event" }

// riverJob works the backlog with River: key, no-op, with a ledger INSERT ... ON CONFLICT DO NOTHING. What is done is marked in batches, by River.
func riverJob(workers, connections int, ledger bool) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) error {
		db, err := openPostgres(ctx, j.Server, connections)
		if err != nil {
			return err
		}
		defer db.Close()
		kinds := river.NewWorkers()
		river.AddWorker(kinds, river.WorkFunc(func(ctx context.Context, r *river.Job[riverArgs]) error {
			key, fresh := r.Args.key(), true
			if ledger {
				done, err := db.Exec(ctx, "INSERT INTO ledger (key, result) VALUES ($1, $2) ON CONFLICT DO NOTHING", key, answer)
				if err != nil {
					return j.fail(err)
				}
				fresh = done.RowsAffected() == 1
			}
			j.settled(!fresh)
			return nil
		}))
		client, err := river.NewClient(riverpgxv5.New(db), &river.Config{
			FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, // as River's own benchmark has it
			Logger:  slog.New(slog.DiscardHandler),
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
			Workers: kinds,
		})
		if err != nil {
			return err
		}
		if err := insert(ctx, db, client, j); err != nil {
			return err
		}
		if err := j.meter.begin(); err != nil {
			return err
		}
		if err := client.Start(ctx); err != nil {
			return err
		}
		err = j.finish(ctx, func() (bool, error) {
			var left bool
			err := db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM river_job WHERE state <> 'completed')").Scan(&left)
			return !left, err
		})
		if err := errors.Join(err, j.meter.end(), client.Stop(ctx)); err != nil || !ledger {
			return errors.Join(err, j.check(-1))
		}
		var stored int
		if err := db.QueryRow(ctx, "SELECT count(*) FROM ledger").Scan(&stored); err != nil {
			return err
		}
		return j.check(stored)
	}
}

// openPostgres waits until the new server is ready and makes River's tables and the ledger.
func openPostgres(ctx context.Context, at endpoint, connections int) (*pgxpool.Pool, error) {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("peers", at.Secret), Host: at.Addr, Path: "/postgres"}
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(connections)
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for patience := time.Now().Add(10 * time.Second); ; {
		if err = db.Ping(ctx); err == nil || time.Now().After(patience) {
			break
		}
		time.Sleep(20 * time.Millisecond) // the database system is starting up
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	tables, err := rivermigrate.New(riverpgxv5.New(db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = tables.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		_, err = db.Exec(ctx, "CREATE TABLE ledger (key text PRIMARY KEY, result jsonb NOT NULL)")
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return db, warm(ctx, db, connections)
}

// warm opens all connections of the pool, so that none has to log in while the work is measured.
func warm(ctx context.Context, db *pgxpool.Pool, connections int) error {
	for range connections {
		c, err := db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
	}
	return nil
}

// insert hands the backlog over in large batches, and lets PostgreSQL see what it has, as autovacuum would before long.
func insert[T any](ctx context.Context, db *pgxpool.Pool, client *river.Client[T], j *job) error {
	const batch = 2000
	for from := 0; from < len(j.events); from += batch {
		var jobs []river.InsertManyParams
		for _, e := range j.events[from:min(from+batch, len(j.events))] {
			jobs = append(jobs, river.InsertManyParams{Args: riverArgs{e}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	_, err := db.Exec(ctx, "VACUUM ANALYZE river_job")
	return err
}
