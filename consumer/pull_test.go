package consumer

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/stream"
)

// A pull of large reports stops before the server would have to keep more for this worker than it keeps for any: it closes the connection
// then, and all that was on its way is charged an attempt. The next pull goes on, also with a report that is larger than what pulls of
// many may bring.
func TestPullIsBounded(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = time.Minute
	w := newWorld(t, cfg, script{})
	const reports, size = 14, 700 << 10
	for i := range reports {
		w.publishRaw(fmt.Sprint("R", i), nil, bytes.Repeat([]byte("x"), size))
	}
	p, err := w.open().newPuller(stream.Reports)
	if err != nil {
		t.Fatal(err)
	}
	var all []*nats.Msg
	for pulls := 0; len(all) < reports; pulls++ {
		brought := 0
		for more := true; more; {
			var got []*nats.Msg
			if got, _, more, err = p.pull(mostPulled-brought, false); err != nil || pulls == reports {
				t.Fatalf("after %d reports in %d pulls: %v", len(all), pulls, err)
			}
			brought += len(got)
			all = append(all, got...)
		}
		if brought*size > mostBytes {
			t.Fatalf("a pull has brought %d reports of %d bytes", brought, size)
		}
	}
	for _, m := range all {
		if meta, err := m.Metadata(); err != nil || meta.NumDelivered != 1 {
			t.Errorf("delivered %+v, %v, want once", meta, err)
		}
	}
}

// A report that is larger than a pull of many may bring is brought by a pull of one, which follows when a pull has brought nothing.
func TestPullOfOneIsUnbounded(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = time.Minute
	w := newWorld(t, cfg, script{})
	s, err := w.js.Stream(t.Context(), stream.Reports)
	if err != nil {
		t.Fatal(err)
	}
	open := s.CachedInfo().Config
	open.MaxMsgSize = -1
	if _, err := w.js.UpdateStream(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	w.publishRaw("LARGE", nil, bytes.Repeat([]byte("x"), 1000<<10))
	p, err := w.open().newPuller(stream.Reports)
	if err != nil {
		t.Fatal(err)
	}
	p.bytes = 900 << 10
	if got, _, more, err := p.pull(2, false); len(got) > 0 || more || err != nil {
		t.Fatalf("a pull of two: %d reports, more: %t, %v", len(got), more, err)
	}
	if got, _, _, err := p.pull(1, false); len(got) != 1 || err != nil {
		t.Fatalf("a pull of one: %d reports, %v", len(got), err)
	}
}
