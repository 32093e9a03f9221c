package jsapi_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

// The server puts a scan's consumer on any replica, also on one that was away and has not caught up. A scan is whole all the same.
func TestScanOfAReplicaThatLags(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t)
	js := c.JetStream(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	away := map[string]string{"node-1": "node-2", "node-2": "node-3", "node-3": "node-1"}[c.StreamLeader(t, "S")]
	c.Stop(t, away)
	const n, tail = 6000, 5
	for range n / 500 {
		for range 500 {
			if _, err := js.PublishAsync("s.a", make([]byte, 4<<10)); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	publish(t, js, "s.b") // so that the last one on a subject is not the stream's
	c.Restart(t, away)
	lags := func() bool {
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current {
				return true
			}
		}
		return false
	}
	for scans := 0; scans < 40 || scans < 200 && lags(); scans++ {
		got := 0
		for _, err := range jsapi.ScanFrom(limited(t), js, "S", "s.a", n-tail+1, true) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if got != tail {
			t.Fatalf("scan %d has %d messages, want %d", scans+1, got, tail)
		}
	}
}
