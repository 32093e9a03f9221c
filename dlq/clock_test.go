package dlq

import (
	"errors"
	"testing"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

// Complaint 12: where an operator has letters expire, the clock starts at death, not at publication.
func TestClockStartsAtDeath(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	before := time.Now().Add(-time.Minute) // the server's clock is this one
	l := y.dieAs(t, "a.pdf", func(l *Letter) { l.PublishedAt, l.FirstFailedAt = before.Add(-time.Hour), before.Add(-time.Hour) })
	s, err := y.js.Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	age := func(most time.Duration) {
		t.Helper()
		cfg.MaxAge, cfg.Duplicates = most, min(most, 2*time.Minute)
		if _, err := y.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	age(30 * time.Minute) // it was published earlier than that
	raw, err := jsapi.Get(t.Context(), y.js, Stream, l.Sequence)
	if err != nil || raw.Time.Before(before) {
		t.Fatalf("the server counts from %v, %v", raw, err)
	}
	age(100 * time.Millisecond)
	natstest.Eventually(t, "the letter to expire", func() bool {
		_, err := y.At(t.Context(), l.Sequence)
		return errors.Is(err, ErrNotFound)
	})
}
