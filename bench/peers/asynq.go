package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqJob works the backlog with Asynq: decode, key, no-op, with a ledger SET NX under the key, and the task is deleted when done.
func asynqJob(workers int, ledger bool) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) error {
		at := asynq.RedisClientOpt{Addr: j.Server.Addr, Password: j.Server.Secret, PoolSize: 2 * workers}
		if err := enqueue(ctx, at, j); err != nil {
			return err
		}
		rdb := redis.NewClient(&redis.Options{Addr: j.Server.Addr, Password: j.Server.Secret, PoolSize: workers})
		defer rdb.Close()
		handle := func(ctx context.Context, t *asynq.Task) error {
			e, err := decode(t.Payload())
			if err != nil {
				return j.fail(err)
			}
			key, fresh := e.key(), true
			if ledger {
				if fresh, err = rdb.SetNX(ctx, "ledger:"+key, answer, 0).Result(); err != nil {
					return j.fail(err)
				}
			}
			j.settled(!fresh)
			return nil
		}
		look := asynq.NewInspector(at)
		defer look.Close()
		srv := asynq.NewServer(at, asynq.Config{Concurrency: workers, LogLevel: asynq.ErrorLevel})
		if err := j.meter.begin(); err != nil {
			return err
		}
		if err := srv.Start(asynq.HandlerFunc(handle)); err != nil {
			return err
		}
		defer srv.Shutdown()
		err := j.finish(ctx, func() (bool, error) {
			q, err := look.GetQueueInfo("default")
			return err == nil && q.Pending+q.Active+q.Retry+q.Archived == 0, err
		})
		if err = errors.Join(err, j.meter.end()); err != nil || !ledger {
			return errors.Join(err, j.check(-1))
		}
		stored := 0
		for keys := rdb.Scan(ctx, 0, "ledger:*", 1000).Iterator(); keys.Next(ctx); {
			stored++
		}
		return j.check(stored)
	}
}

// enqueue hands the backlog over: Asynq takes one task at a time.
func enqueue(ctx context.Context, at asynq.RedisClientOpt, j *job) error {
	client := asynq.NewClient(at)
	defer client.Close()
	var hands sync.WaitGroup
	const many = 32
	for h := range many {
		hands.Go(func() {
			for i := h; i < len(j.events); i += many {
				if _, err := client.EnqueueContext(ctx, asynq.NewTask("event", j.body(i))); err != nil {
					_ = j.fail(fmt.Errorf("enqueue: %w", err))
					return
				}
			}
		})
	}
	hands.Wait()
	return j.error()
}
