package jsapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

func TestEnsure(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if err := jsapi.Ensure(t.Context(), js, jetstream.StreamConfig{Name: "S", Replicas: 3}); err == nil || !strings.Contains(err.Error(), "set up stream S") {
		t.Errorf("three replicas on one server: got %v", err)
	}
	ensured := func(description string) jetstream.StreamConfig {
		if err := jsapi.Ensure(t.Context(), js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Description: description}); err != nil {
			t.Fatal(err)
		}
		s, err := js.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	cfg := ensured("old")
	if cfg.Description != "old" || cfg.MaxBytes != -1 || cfg.MaxMsgs != -1 || cfg.MaxAge != 0 {
		t.Errorf("created: %+v", cfg)
	}
	publish(t, js, "s.a")
	cfg.MaxBytes, cfg.MaxMsgs, cfg.MaxAge = 1<<40, 1000, time.Hour
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	cfg = ensured("new")
	if cfg.Description != "new" || cfg.MaxBytes != 1<<40 || cfg.MaxMsgs != 1000 || cfg.MaxAge != time.Hour {
		t.Errorf("updated: %+v", cfg)
	}
	if _, err := jsapi.Get(t.Context(), js, "S", 1); err != nil {
		t.Errorf("what it held: %v", err)
	}
}
