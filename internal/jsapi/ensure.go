package jsapi

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Ensure creates a stream, or updates it but for what belongs to whoever runs the server: placement, compression, metadata,
// republishing, and the limits on bytes, messages and age. What no update can change is an error that names it.
func Ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	return ensure(ctx, js, want, false)
}

// Impose is [Ensure], and the limits are ours too.
func Impose(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	return ensure(ctx, js, want, true)
}

func ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, limits bool) error {
	s, err := js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = js.CreateStream(ctx, want)
	case err == nil:
		have := s.CachedInfo().Config
		if err = Changeable(have, want); err != nil {
			break
		}
		if !limits {
			want.MaxBytes, want.MaxMsgs, want.MaxAge = have.MaxBytes, have.MaxMsgs, have.MaxAge
		}
		want.Placement, want.Compression, want.Metadata, want.RePublish = have.Placement, have.Compression, have.Metadata, have.RePublish
		if !reflect.DeepEqual(have, completed(want)) { // an update is a file written and synced, also if it changes nothing (server v2.15.3)
			_, err = js.UpdateStream(ctx, want)
		}
	}
	if err != nil {
		return fmt.Errorf("set up stream %s: %w", want.Name, err)
	}
	return nil
}

// completed is what the server makes of a configuration that leaves things open (v2.15.3). Should it do more than is known here, the
// stream is updated once too often.
func completed(c jetstream.StreamConfig) jetstream.StreamConfig {
	for _, limit := range []*int64{&c.MaxMsgs, &c.MaxBytes, &c.MaxMsgsPerSubject} {
		if *limit == 0 {
			*limit = -1
		}
	}
	if c.MaxConsumers == 0 {
		c.MaxConsumers = -1
	}
	if c.MaxMsgSize == 0 {
		c.MaxMsgSize = -1
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Duplicates == 0 {
		c.Duplicates = 2 * time.Minute
		if c.MaxAge > 0 {
			c.Duplicates = min(c.Duplicates, c.MaxAge)
		}
	}
	return c
}

// Changeable returns an error that names what no update makes of one configuration the other (server v2.15.3), or what an update
// would make less safe.
func Changeable(have, want jetstream.StreamConfig) error {
	queue := have.Retention == jetstream.WorkQueuePolicy
	var fixed []string
	for _, c := range []struct {
		is   bool
		what string
	}{
		{have.Sealed, "it is sealed"},
		{have.Storage != want.Storage, "it is stored in " + strings.ToLower(have.Storage.String())},
		{queue != (want.Retention == jetstream.WorkQueuePolicy), "its retention is " + strings.ToLower(have.Retention.String())},
		{have.PersistMode != want.PersistMode, "its persist mode is async"},
		{have.AllowMsgSchedules && !want.AllowMsgSchedules, "it takes schedules"},
		{have.AllowMsgTTL && !want.AllowMsgTTL, "publishers may limit the life of a message"},
		{have.AllowMsgCounter != want.AllowMsgCounter, "it is a counter"},
		{have.DenyDelete && !have.Sealed && !want.DenyDelete, "it denies deletes"},
		{have.DenyPurge && !have.Sealed && !want.DenyPurge, "it denies purges"},
	} {
		if c.is {
			fixed = append(fixed, c.what)
		}
	}
	switch {
	case len(fixed) > 0:
		return fmt.Errorf("%s, which cannot be changed: save what it holds (`nats stream backup`), delete it, and run setup again", strings.Join(fixed, ", "))
	case have.Replicas > max(1, want.Replicas):
		return fmt.Errorf("it has %d replicas, and GUYLINE_REPLICAS=%d would take some away: set GUYLINE_REPLICAS=%d, or take them away by hand with `nats stream edit`",
			have.Replicas, want.Replicas, have.Replicas)
	}
	return nil
}
