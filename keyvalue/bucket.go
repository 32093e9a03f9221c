package keyvalue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Setup creates the buckets, or sets their replicas.
func Setup(ctx context.Context, js jetstream.JetStream, replicas int) error {
	for _, cfg := range []jetstream.KeyValueConfig{
		{Bucket: ledgerBucket, Description: "Guyline: settled reports by idempotency key", History: 1, Replicas: replicas, Storage: jetstream.FileStorage},
		{Bucket: sitesBucket, Description: "Guyline: known sites", History: 1, Replicas: replicas, Storage: jetstream.FileStorage},
		{Bucket: turnsBucket, Description: "Guyline: which worker may act next", History: 1, TTL: turnsKept, Replicas: replicas, Storage: jetstream.FileStorage},
	} {
		if err := setup(ctx, js, cfg); err != nil {
			return fmt.Errorf("set up bucket %s: %w", cfg.Bucket, err)
		}
	}
	return nil
}

// setup leaves everything but the replicas of an existing bucket alone: the key-value calls of the client library would
// reset stream settings that they do not know (nats.go v1.55.0).
func setup(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig) error {
	_, err := js.CreateKeyValue(ctx, cfg)
	if !errors.Is(err, jetstream.ErrBucketExists) {
		return err
	}
	s, err := js.Stream(ctx, "KV_"+cfg.Bucket)
	if err != nil {
		return err
	}
	have := s.CachedInfo().Config
	if have.Replicas == cfg.Replicas {
		return nil
	}
	have.Replicas = cfg.Replicas
	_, err = js.UpdateStream(ctx, have)
	return err
}
