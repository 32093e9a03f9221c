package natstest

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	js := c.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "S", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	first := c.StreamLeader(t, "S")
	c.Stop(t, first)
	if second := c.StreamLeader(t, "S"); second == first {
		t.Errorf("%s leads although it is stopped", first)
	}
	kept := func() bool {
		s, err := js.Stream(t.Context(), "S")
		return err == nil && s.CachedInfo().State.Msgs == 1
	}
	Eventually(t, "the others to serve", kept)
	c.Restart(t, first)
	c.StepDown(t, "S")
	Eventually(t, "the cluster to serve", kept)
}
