package bench

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestBacklog(t *testing.T) {
	t.Parallel()
	ids, keys := map[string]bool{}, map[string]int{}
	for i := range 400 {
		m := backlog(i, 4)
		ids[m.Header.Get(jetstream.MsgIDHeader)] = true
		e, err := read(m.Data)
		if err != nil || e.Validate() != nil {
			t.Fatalf("%s: %v, %v", m.Data, err, e.Validate())
		}
		keys[string(e.Key())]++
	}
	if len(ids) != 400 || len(keys) != 300 {
		t.Errorf("%d ids and %d reports of 400 messages", len(ids), len(keys))
	}
}
