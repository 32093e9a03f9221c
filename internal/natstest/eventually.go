package natstest

import (
	"testing"
	"time"
)

// Eventually waits until cond returns true. It asks at once and then every 5 ms; after a minute
// it fails the test, naming what it waited for: "timed out waiting for " + what. It is called from
// the test's goroutine.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !poll(cond, patience) {
		t.Fatalf("timed out waiting for %s", what)
	}
}

// poll reports whether cond came true within the limit.
func poll(cond func() bool, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if cond() {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return cond()
		}
	}
}
