package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

const topic = "events"

// watermillConfig is what differs between Watermill's rows.
type watermillConfig struct {
	subscribers int  // each works one message at a time
	pull        int  // messages in flight to each
	async       bool // AckAsync; else DoubleAck, the default
	ledger      bool
}

// watermillJob works the backlog with Watermill: decode, key, no-op, with a ledger kv.Create under the key.
func watermillJob(cfg watermillConfig) func(context.Context, *job) error {
	return func(ctx context.Context, j *job) error {
		nc, js, err := connectNATS(j)
		if err != nil {
			return err
		}
		defer nc.Close()
		kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "ledger"})
		if err != nil {
			return err
		}
		stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
		if err != nil {
			return err
		}
		if err := publish(ctx, js, j, func(event) string { return topic }); err != nil {
			return err
		}
		// One durable for all subscribers, with room for what they have in flight; GroupedConsumer has the server's default of 1,000.
		durable := jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10000}
		consumer, err := stream.CreateConsumer(ctx, durable)
		if err != nil {
			return err
		}
		sub, err := wm.NewSubscriber(wm.SubscriberConfig{
			Conn: nc, Logger: watermill.NopLogger{}, AckAsync: cfg.async,
			ConsumeOptions: []jetstream.PullConsumeOpt{jetstream.PullMaxMessages(cfg.pull)},
			ResourceInitializer: func(context.Context, jetstream.JetStream, string) (jetstream.Consumer, func(context.Context, watermill.LoggerAdapter), error) {
				c, err := js.Consumer(ctx, topic, durable.Durable)
				return c, nil, err
			},
		})
		if err != nil {
			return err
		}
		handle := func(m *message.Message) error {
			e, err := decode(m.Payload)
			if err != nil {
				return err
			}
			key, known := e.key(), false
			if cfg.ledger {
				_, err := kv.Create(ctx, key, []byte(answer))
				if known = errors.Is(err, jetstream.ErrKeyExists); err != nil && !known {
					return err
				}
			}
			m.Ack()
			j.settled(known)
			return nil
		}
		if err := j.meter.begin(); err != nil {
			return err
		}
		for range cfg.subscribers {
			messages, err := sub.Subscribe(ctx, topic)
			if err != nil {
				return err
			}
			go func() { // until the process ends
				for m := range messages {
					if err := handle(m); err != nil {
						_ = j.fail(err)
					}
				}
			}()
		}
		err = j.finish(ctx, func() (bool, error) {
			info, err := consumer.Info(ctx)
			return err == nil && info.NumPending == 0 && info.NumAckPending == 0, err
		})
		if err = errors.Join(err, j.meter.end()); err != nil || !cfg.ledger {
			return errors.Join(err, j.check(-1))
		}
		status, err := kv.Status(ctx)
		if err != nil {
			return err
		}
		return j.check(int(status.Values()))
	}
}
