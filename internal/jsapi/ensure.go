package jsapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Ensure creates a stream, or updates it but for the limits on bytes, messages and age: those belong to whoever set them.
func Ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	s, err := js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = js.CreateStream(ctx, want)
	case err == nil:
		have := s.CachedInfo().Config
		want.MaxBytes, want.MaxMsgs, want.MaxAge = have.MaxBytes, have.MaxMsgs, have.MaxAge
		_, err = js.UpdateStream(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("set up stream %s: %w", want.Name, err)
	}
	return nil
}
