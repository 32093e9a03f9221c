package consumer

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// What is set up already is not written again: with each write synced, that would cost every start a third of its time.
func TestSetupAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	nc := w.srv.Conn(t)
	for _, api := range []string{"STREAM.CREATE.>", "STREAM.UPDATE.>", "CONSUMER.CREATE.>"} {
		if _, err := nc.Subscribe("$JS.API."+api, func(m *nats.Msg) { t.Errorf("asked for %s", m.Subject) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := Setup(t.Context(), w.js, w.cfg.Queues); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
