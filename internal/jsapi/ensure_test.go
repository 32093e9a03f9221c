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

// What belongs to whoever runs the server stays, and with Impose the limits are ours.
func TestImpose(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	want := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxBytes: 1 << 20}
	theirs := want
	theirs.Compression, theirs.Metadata = jetstream.S2Compression, map[string]string{"owner": "ada"}
	theirs.RePublish = &jetstream.RePublish{Source: "s.>", Destination: "seen.>"}
	theirs.MaxBytes, theirs.MaxMsgs, theirs.MaxAge = 1000, 10, time.Hour
	if _, err := js.CreateStream(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if err := jsapi.Impose(t.Context(), js, want); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	got := s.CachedInfo().Config
	if got.MaxBytes != 1<<20 || got.MaxMsgs > 0 || got.MaxAge != 0 {
		t.Errorf("limits: %+v", got)
	}
	if got.Compression != jetstream.S2Compression || got.Metadata["owner"] != "ada" || got.RePublish == nil {
		t.Errorf("what is theirs: %+v", got)
	}
}

// What no update can change is named, all of it, in one line.
func TestChangeable(t *testing.T) {
	t.Parallel()
	plain := jetstream.StreamConfig{Replicas: 1}
	if err := jsapi.Changeable(plain, jetstream.StreamConfig{Discard: jetstream.DiscardNew, Replicas: 3}); err != nil {
		t.Error(err)
	}
	have := jetstream.StreamConfig{
		Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy, PersistMode: jetstream.AsyncPersistMode, AllowMsgSchedules: true,
		AllowMsgTTL: true, AllowMsgCounter: true, DenyDelete: true, DenyPurge: true,
	}
	const want = "it is stored in memory, its retention is workqueue, its persist mode is async, it takes schedules, publishers may limit the life of a message, " +
		"it is a counter, it denies deletes, it denies purges, which cannot be changed: "
	if err := jsapi.Changeable(have, plain); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if err := jsapi.Changeable(jetstream.StreamConfig{Sealed: true, DenyDelete: true, DenyPurge: true}, plain); err == nil || !strings.HasPrefix(err.Error(), "it is sealed, which") {
		t.Errorf("sealed: %v", err)
	}
	if err := jsapi.Changeable(jetstream.StreamConfig{Replicas: 3}, plain); err == nil || !strings.Contains(err.Error(), "set GUYLINE_REPLICAS=3") {
		t.Errorf("fewer replicas: %v", err)
	}
}
