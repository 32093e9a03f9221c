package audit_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
)

func TestSetupAgainKeepsLimits(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	config := func() jetstream.StreamConfig {
		s, err := js.Stream(t.Context(), audit.Stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	want := config()
	if want.Discard != jetstream.DiscardNew || want.Retention != jetstream.LimitsPolicy || want.Storage != jetstream.FileStorage ||
		want.MaxMsgs != -1 || want.MaxBytes != -1 || want.MaxAge != 0 {
		t.Errorf("without an operator: %+v", want)
	}
	want.MaxBytes, want.MaxMsgs, want.MaxAge = 1<<40, 1_000_000, 10*365*24*time.Hour
	if _, err := js.UpdateStream(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want = config()
	e := event(audit.Death, "TWR-9017", 1)
	appended(t, trail, e)
	if err := audit.Setup(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	if got := config(); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if got := collect(t, trail.All(t.Context())); !cmp.Equal(got, []audit.Event{e}) {
		t.Errorf("events: %+v", got)
	}
	if err := audit.Setup(t.Context(), js, 3); err == nil {
		t.Error("three replicas on one server: no error")
	}
}

func TestAppendOnly(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	e := event(audit.Death, "TWR-9017", 1)
	appended(t, trail, e)
	s, err := js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	subject := "reports.audit.TWR-9017." + string(e.Key)
	rollUp := func(ctx context.Context, how string) error {
		_, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Rollup": {how}}})
		return err
	}
	loosened := func(change func(*jetstream.StreamConfig)) error {
		cfg := s.CachedInfo().Config
		change(&cfg)
		_, err := js.UpdateStream(ctx, cfg)
		return err
	}
	for what, err := range map[string]error{
		"delete":        s.DeleteMsg(ctx, 1),
		"secure delete": s.SecureDeleteMsg(ctx, 1),
		"our delete":    jsapi.Delete(ctx, js, audit.Stream, 1),
		"purge":         s.Purge(ctx),
		"purge subject": s.Purge(ctx, jetstream.WithPurgeSubject(subject)),
		"roll up all":   rollUp(ctx, "all"),
		"roll up one":   rollUp(ctx, "sub"),
		"allow delete":  loosened(func(cfg *jetstream.StreamConfig) { cfg.DenyDelete = false }),
		"allow purge":   loosened(func(cfg *jetstream.StreamConfig) { cfg.DenyPurge = false }),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if got := collect(t, trail.All(ctx)); !cmp.Equal(got, []audit.Event{e}) {
		t.Errorf("events: %+v", got)
	}
}
