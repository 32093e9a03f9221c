package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A report that was handed back, replayed or parked is as old as on the day on which it was handed over. Which upstreams are down is
// told by all that are parked.
func TestOldest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	now := time.Now().UTC()
	oldest := func(want time.Time) fate.Counts {
		t.Helper()
		c, err := w.finder.Count(t.Context())
		w.must(err)
		if !c.Oldest.Equal(want) {
			t.Errorf("the oldest is of %v, want %v", c.Oldest, want)
		}
		return c
	}
	oldest(time.Time{})
	key := w.publish("TWR-1", "published")
	m, err := w.queues.Find(t.Context(), "*", key)
	w.must(err)
	oldest(m.PublishedAt)
	const n = 600 // more than one request gives
	for i := range n {
		w.requeue("TWR-1", fmt.Sprint(i), stream.Carried{PublishedAt: now.Add(-time.Duration(i+1) * time.Hour)})
	}
	oldest(now.Add(-n * time.Hour))

	hour := now.Add(time.Hour)
	park := func(uri, upstream string, since time.Time, reason string) {
		key, b := report.NewKey("TWR-1", uri), body("TWR-1", uri)
		w.published = append(w.published, key)
		c := stream.Carried{PublishedAt: since.Add(-1000 * time.Hour), Parking: &stream.Parking{Since: since, Upstream: upstream, Code: report.CodeTimeout, Reason: reason}}
		w.must(w.queues.Park(t.Context(), report.NewToken("TWR-1"), key, nil, b, c, 0, hour))
	}
	first, second := now.Add(-2*time.Minute), now.Add(-time.Minute)
	park("p1", "sftp://a", second, "one")
	park("p2", "sftp://b", second, "two")
	park("p3", "sftp://a", first, "three")
	c := oldest(first.Add(-1000 * time.Hour))
	want := []fate.Down{
		{Upstream: "sftp://a", Parked: 2, Since: first, Code: report.CodeTimeout, Reason: "three"},
		{Upstream: "sftp://b", Parked: 1, Since: second, Code: report.CodeTimeout, Reason: "two"},
	}
	if diff := cmp.Diff(want, c.Down); diff != "" || c.Parked != 3 {
		t.Errorf("%d parked; down (-want +got):\n%s", c.Parked, diff)
	}
	w.ends(invariant.Tally{Waiting: n + 4})
}
