package bench

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/stream"
)

// A lap that has left behind something else than it must does not count.
func TestMiscount(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if _, err := stake(t.Context(), js, small(Config{}).consumerConfig().Queues); err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(t.Context(), stream.Reports, stream.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	deliver := func() jetstream.Msg {
		t.Helper()
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	l := &lap{how: designs[Naive], js: js, reports: 4, unique: 3, all: make(chan struct{})}
	for i := range 4 {
		if _, err := js.PublishMsg(t.Context(), backlog(i, 0)); err != nil {
			t.Fatal(err)
		}
		deliver()
	}
	for range 3 {
		l.settle(false)
	}
	want := func(part string) {
		t.Helper()
		if err := l.check(t.Context()); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %s", err, part)
		}
	}
	want("0 duplicates were counted of 4 reports, want 1, and up to 0 that were delivered again")
	l.settle(true)
	want("0 messages are in " + ledgerStream + ", want 3")
	for _, key := range []string{"a", "b", "c"} {
		if _, err := js.Publish(t.Context(), ledgerSubject+"site."+key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := js.Publish(t.Context(), ledgerSubject+"site.d", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	want("4 messages are in " + ledgerStream + ", want 3")
	l.unique, l.reports = 4, 5 // with one more, which is delivered twice
	if _, err := js.PublishMsg(t.Context(), backlog(4, 0)); err != nil {
		t.Fatal(err)
	}
	if err := deliver().Nak(); err != nil {
		t.Fatal(err)
	}
	deliver()
	l.settled.Add(1)
	if err := l.check(t.Context()); err != nil || l.redelivered != 1 {
		t.Errorf("%v, %d redelivered", err, l.redelivered)
	}
	l.unique = 5 // its duplicate may be of what came again, but the ledger tells
	want("4 messages are in " + ledgerStream + ", want 5")
}
