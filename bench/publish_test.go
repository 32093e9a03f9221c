package bench

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
)

// A list is published to queues with as many replicas as are asked for, which one server cannot have.
func TestPublishReplicas(t *testing.T) {
	t.Parallel()
	given := natstest.Start(t)
	leavesNothing(t, given.URL())
	cfg := PublishConfig{Place: Config{Mode: Given, URL: given.URL(), Replicas: 3}, Rows: 1000, Reps: 1}
	if r, err := Publish(t.Context(), cfg, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "replicas > 1 not supported") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A publisher that says it has published more than it has is found out.
func TestPublishMiscount(t *testing.T) {
	t.Parallel()
	cfg := PublishConfig{Place: Config{Mode: Embedded, Sync: Interval}, Rows: 1000, Reps: 1}
	half := func(ctx context.Context, nc *nats.Conn, list string) (int64, error) {
		messages, err := messagesOf(list)
		if err != nil {
			return 0, err
		}
		n, err := publishAll(ctx, nc, slices.Values(messages[:500]))
		return 2 * n, err
	}
	if _, err := Publish(t.Context(), cfg, half, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "guyline, repetition 1: 1000 reports were accepted and 500 are in REPORTS, want 1000") {
		t.Error(err)
	}
}
