package bench

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/stream"
)

func streams(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	l := js.StreamNames(t.Context())
	for name := range l.Name() {
		names = append(names, name)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// leavesNothing checks, when the parallel tests have ended, that no stream is left on a given server.
func leavesNothing(t *testing.T, url string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		nc, err := nats.Connect(url, nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		names := js.StreamNames(ctx)
		for name := range names.Name() {
			t.Errorf("stream %s is left on the given server", name)
		}
		if err := names.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A given server that somebody uses is not touched.
func TestGivenInUse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{stream.Reports, ledgerStream, lockStream} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			js := srv.JetStream(t)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"theirs"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), "theirs", nil); err != nil {
				t.Fatal(err)
			}
			_, err := Throughput(t.Context(), small(Config{Mode: Given, URL: srv.URL()}), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), "stream "+name+" exists") {
				t.Errorf("%v", err)
			}
			s, err := js.Stream(t.Context(), name)
			if err != nil || s.CachedInfo().State.Msgs != 1 {
				t.Errorf("their stream: %v, %v", s, err)
			}
			if left := streams(t, js); len(left) != 1 {
				t.Errorf("streams %v", left)
			}
		})
	}
}

// What somebody else publishes while a bench runs is not deleted, and neither is a stream that was made anew.
func TestClaimLeaves(t *testing.T) {
	t.Parallel()
	cfg := small(Config{}).consumerConfig().Queues
	js := natstest.Start(t).JetStream(t)
	c, err := stake(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stake(t.Context(), js, cfg); err == nil {
		t.Error("two benches on one server")
	}
	all := len(streams(t, js))
	if _, err := js.PublishMsg(t.Context(), backlog(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.leave(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "somebody else has published to REPORTS") {
		t.Errorf("%v", err)
	}
	if left := streams(t, js); len(left) != all {
		t.Errorf("%v are left of %d", left, all)
	}
	if _, err := js.Publish(t.Context(), "$KV.reports_sites.site.TWR-1", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := c.leave(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "somebody else has published to KV_reports_sites") {
		t.Errorf("%v", err)
	}
	if left := streams(t, js); len(left) != all {
		t.Errorf("%v are left of %d", left, all)
	}
	if err := js.DeleteStream(t.Context(), sitesStream); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(js.DeleteStream(t.Context(), ledgerStream), stakeOver(t, js)); err != nil {
		t.Fatal(err)
	}
	if err := c.leave(t.Context(), 1); err == nil || !strings.Contains(err.Error(), ledgerStream+" was made anew") {
		t.Errorf("%v", err)
	}
	if left := streams(t, js); !cmp.Equal(left, []string{ledgerStream}) {
		t.Errorf("%v are left, want theirs", left)
	}
}

// stakeOver makes the ledger's stream, as somebody else might.
func stakeOver(t *testing.T, js jetstream.JetStream) error {
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: ledgerStream, Subjects: []string{"theirs"}})
	return err
}

// On a given cluster the streams have as many replicas as the operator's will have.
func TestGivenCluster(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t)
	cfg := small(Config{Mode: Given, URL: c.URL(), Replicas: 3})
	js := c.JetStream(t)
	mine, err := stake(t.Context(), js, cfg.consumerConfig().Queues)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(consumer.Streams(), limitsStream) {
		if s, err := js.Stream(t.Context(), name); err != nil || s.CachedInfo().Config.Replicas != 3 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if err := mine.leave(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	cfg.Designs = []Design{Naive, CreateAsync, Guyline} // which must tell duplicates, for which replicated streams have a code of their own
	var r *ThroughputResult
	natstest.Eventually(t, "the cluster to answer in time", func() bool {
		r, err = Throughput(t.Context(), cfg, slog.New(slog.DiscardHandler))
		return !errors.Is(err, context.DeadlineExceeded)
	})
	if err != nil || r.Settings.Replicas != 3 || len(r.Laps) != 3*cfg.Reps {
		t.Errorf("%+v, %v", r, err)
	}
}
