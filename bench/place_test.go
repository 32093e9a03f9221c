package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
)

func open(t *testing.T, cfg Config) *place {
	t.Helper()
	p, err := openPlace(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func connected(t *testing.T, p *place) jetstream.JetStream {
	t.Helper()
	nc, err := p.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestWrongPlaces(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		`the server is "", allowed are embedded, separate and given`: {Sync: Always},
		`the sync is "often", allowed are always and interval`:       {Mode: Separate, Sync: "often"},
		"no address of a given server":                               {Mode: Given},
		"3 replicas need a given cluster":                            {Mode: Separate, Sync: Always, Replicas: 3},
	} {
		if _, err := openPlace(t.Context(), cfg); err == nil || err.Error() != want {
			t.Errorf("Open(%+v): %v, want %s", cfg, err, want)
		}
	}
	if err := Serve(t.Context(), strings.NewReader("hello\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "guyline bench") {
		t.Errorf("a server without settings: %v", err)
	}
}

// The product commits as `guyline run` does on such a server, whatever is measured.
func TestSynced(t *testing.T) {
	t.Parallel()
	for place, want := range map[Config]bool{
		{Mode: Embedded, Sync: Always}: true, {Mode: Embedded, Sync: Interval}: false, {Mode: Separate, Sync: Always}: true,
		{Mode: Given, URL: "nats://127.0.0.1", Sync: Always}: false, // a given one has its own
	} {
		throughput, latency := small(place).consumerConfig(), tiny(place).consumerConfig(10)
		if throughput.SyncedStore != want || latency.SyncedStore != want {
			t.Errorf("%+v: throughput %v, latency %v, want %v", place, throughput.SyncedStore, latency.SyncedStore, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	given := natstest.Start(t)
	for _, cfg := range []Config{
		{Mode: Embedded, Sync: Always}, {Mode: Embedded, Sync: Interval}, {Mode: Separate, Sync: Interval}, {Mode: Given, URL: given.URL()},
	} {
		t.Run(fmt.Sprint(cfg.Mode, cfg.Sync), func(t *testing.T) {
			t.Parallel()
			p, err := openPlace(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			js := connected(t, p)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S"}); err != nil {
				t.Error(err)
			}
			before, err := p.cpu()
			known := runtime.GOOS == "linux" && cfg.Mode != Given
			if known && (err != nil || before <= 0) || cfg.Mode == Given && !errors.Is(err, errUnknown) {
				t.Errorf("CPU: %v, %v", before, err)
			}
			client, srv, err := p.rss()
			if known && (err != nil || client <= 1<<20 || (srv > 1<<20) != (cfg.Mode == Separate)) {
				t.Errorf("RSS: client %d, server %d, %v", client, srv, err)
			}
			if err := p.resetPeak(); known && err != nil {
				t.Error(err)
			}
			if client, _, err := p.peak(); known && (err != nil || client <= 1<<20) {
				t.Errorf("peak: client %d, %v", client, err)
			}
			js.Conn().Close()
			if err := p.close(); err != nil {
				t.Error(err)
			}
			if dir := p.dir; dir != "" {
				if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the temporary directory %s is still there: %v", dir, err)
				}
			}
		})
	}
}

// What a separate server has acknowledged is there after it was killed; its clients find it again, and nobody without the token does.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Mode: Separate, Sync: Interval, Dir: t.TempDir()})
	js := connected(t, p)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S"}); err != nil {
		t.Fatal(err)
	}
	again := func() error { return p.restart(t.Context()) }
	for i, end := range []func() error{p.kill, p.stop, again} {
		if _, err := js.Publish(t.Context(), "S", bytes.Repeat([]byte("x"), 100)); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := p.restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the client to find it again", func() bool { return js.Conn().IsConnected() })
		s, err := js.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().State.Msgs; got != uint64(i+1) {
			t.Errorf("%d messages after restart %d, want %d", got, i+1, i+1)
		}
	}
	if _, err := nats.Connect(fmt.Sprint("nats://127.0.0.1:", p.port)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("connecting without the token: %v", err)
	}
	inside := open(t, Config{Mode: Embedded, Sync: Always})
	for what, act := range map[string]func() error{"kill": inside.kill, "stop": inside.stop, "restart": func() error { return inside.restart(t.Context()) }} {
		if err := act(); !errors.Is(err, errNotSeparate) {
			t.Errorf("%s an embedded server: %v", what, err)
		}
	}
}
