package keyvalue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
)

// Buckets are the names of the buckets.
func Buckets() []string { return []string{ledgerBucket, sitesBucket, turnsBucket} }

// Setup creates the buckets, or repairs what would lose entries or refuse them, and sets their replicas. The limits on bytes,
// messages and age belong to whoever set them.
func Setup(ctx context.Context, js jetstream.JetStream, replicas int) error {
	for _, want := range Streams(replicas) {
		if err := setup(ctx, js, want); err != nil {
			return fmt.Errorf("set up bucket %s: %w", want.Name[len("KV_"):], err)
		}
	}
	return nil
}

// Streams is what [Setup] makes of the streams behind the buckets.
func Streams(replicas int) []jetstream.StreamConfig {
	ledger := bucket(ledgerBucket, "Guyline: settled reports by idempotency key", replicas, 0)
	ledger.AllowAtomicPublish = true // see Ledger.Group
	return []jetstream.StreamConfig{
		ledger,
		bucket(sitesBucket, "Guyline: known sites", replicas, 0),
		bucket(turnsBucket, "Guyline: which worker may act next", replicas, turnsKept),
	}
}

// bucket is a stream as the client library makes it for a bucket with a history of 1 (nats.go v1.55.0).
func bucket(name, description string, replicas int, kept time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + name,
		Description:       description,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: 1,
		MaxBytes:          -1,
		MaxMsgs:           -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		MaxAge:            kept,
		Discard:           jetstream.DiscardNew,
		Duplicates:        2 * time.Minute,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowDirect:       true,
	}
}

// setup leaves settings of an existing bucket alone that it does not know: the key-value calls of the client library would
// reset them (nats.go v1.55.0).
func setup(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, want)
		return err
	}
	if err != nil {
		return err
	}
	have := s.CachedInfo().Config
	want.AllowMsgTTL, want.DenyPurge = have.AllowMsgTTL, have.DenyPurge // as other tools make a bucket; neither hurts here
	if err := jsapi.Changeable(have, want); err != nil {
		return err
	}
	have.Subjects, have.Replicas = want.Subjects, want.Replicas
	have.Discard, have.DiscardNewPerSubject = want.Discard, false
	have.MaxMsgsPerSubject, have.MaxMsgSize, have.MaxConsumers = want.MaxMsgsPerSubject, want.MaxMsgSize, want.MaxConsumers
	have.NoAck, have.Mirror, have.Sources, have.SubjectTransform = false, nil, nil, nil
	have.AllowRollup, have.DenyDelete, have.AllowDirect = want.AllowRollup, want.DenyDelete, want.AllowDirect
	have.AllowAtomicPublish = have.AllowAtomicPublish || want.AllowAtomicPublish
	have.Retention, have.ConsumerLimits = want.Retention, want.ConsumerLimits
	_, err = js.UpdateStream(ctx, have)
	return err
}
