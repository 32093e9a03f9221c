package keyvalue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
)

func setUp(t testing.TB) jetstream.JetStream {
	t.Helper()
	js := natstest.Start(t).JetStream(t)
	if err := keyvalue.Setup(context.Background(), js, 1); err != nil {
		t.Fatal(err)
	}
	return js
}

func TestOpenWithoutSetup(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if _, err := keyvalue.OpenLedger(t.Context(), js); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the ledger: got %v, want ErrBucketNotFound", err)
	}
	if _, err := keyvalue.OpenSites(t.Context(), js); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the sites: got %v, want ErrBucketNotFound", err)
	}
	if _, err := keyvalue.OpenTurns(t.Context(), js); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the turns: got %v, want ErrBucketNotFound", err)
	}
}

func TestSetup(t *testing.T) {
	t.Parallel()
	js := setUp(t)
	for name, age := range map[string]time.Duration{"KV_reports_ledger": 0, "KV_reports_sites": 0, "KV_reports_turns": 30 * 24 * time.Hour} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if cfg := s.CachedInfo().Config; cfg.MaxMsgsPerSubject != 1 || cfg.MaxAge != age || cfg.Storage != jetstream.FileStorage || cfg.Replicas != 1 {
			t.Errorf("%s: history %d, age %v, %v, %d replicas", name, cfg.MaxMsgsPerSubject, cfg.MaxAge, cfg.Storage, cfg.Replicas)
		}
	}
}

// What an operator has set on a bucket stays, whether or not the client library knows it.
func TestSetupAgainKeepsSettings(t *testing.T) {
	t.Parallel()
	js := setUp(t)
	config := func() jetstream.StreamConfig {
		s, err := js.Stream(t.Context(), "KV_reports_ledger")
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	want := config()
	want.AllowDirect, want.AllowAtomicPublish, want.MaxBytes, want.MaxAge, want.Description = false, true, 1<<40, time.Hour, "ours"
	if _, err := js.UpdateStream(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want = config()         // as the server completed it
	want.AllowDirect = true // which reads of many entries need
	if err := keyvalue.Setup(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	if got := config(); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	// One server cannot hold three replicas.
	if err := keyvalue.Setup(t.Context(), js, 3); err == nil || !strings.Contains(err.Error(), "reports_ledger") {
		t.Errorf("three replicas on one server: got %v", err)
	}
	if got := config(); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestKeepLedger(t *testing.T) {
	t.Parallel()
	js := setUp(t)
	ledger, err := keyvalue.OpenLedger(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(kept time.Duration, atOnce bool) {
		t.Helper()
		if err := keyvalue.KeepLedger(t.Context(), js, kept, atOnce); err != nil {
			t.Fatal(err)
		}
		if err := keyvalue.Setup(t.Context(), js, 1); err != nil { // which leaves it alone
			t.Fatal(err)
		}
		if got, err := ledger.Kept(t.Context()); err != nil || got != kept {
			t.Fatalf("kept for %v, %v; want %v", got, err, kept)
		}
	}
	keep(0, false)
	keep(720*time.Hour, false)
	keep(time.Hour, false) // nothing is so old
	keep(0, false)

	e := keyvalue.Entry{State: keyvalue.Done, SiteID: "TWR-1", SourceURI: "a.pdf"}
	if _, err := ledger.Commit(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	const short = 100 * time.Millisecond
	natstest.Eventually(t, "the entry to be old enough", func() bool {
		s, err := js.Stream(t.Context(), keyvalue.LedgerStream)
		return err == nil && s.CachedInfo().TimeStamp.Sub(s.CachedInfo().State.FirstTime) > short
	})
	if err := keyvalue.KeepLedger(t.Context(), js, short, false); !errors.Is(err, keyvalue.ErrForgets) {
		t.Fatalf("an entry would be gone at once: got %v, want ErrForgets", err)
	}
	if kept, err := ledger.Kept(t.Context()); err != nil || kept != 0 {
		t.Fatalf("a refusal has changed it: kept for %v, %v", kept, err)
	}
	keep(short, true)
	natstest.Eventually(t, "the entry to be forgotten", func() bool {
		_, err := ledger.LookupLeader(t.Context(), "TWR-1", e.Key())
		return errors.Is(err, keyvalue.ErrNotFound)
	})
	if rev, err := ledger.Commit(t.Context(), e); err != nil || rev != 2 {
		t.Errorf("the report settled again: revision %d, %v; want 2", rev, err)
	}
}
