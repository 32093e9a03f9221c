package jsapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

func lasts(t testing.TB, js jetstream.JetStream, subjects ...string) map[string]uint64 {
	t.Helper()
	got := map[string]uint64{}
	for m, err := range jsapi.Lasts(limited(t), js, "S", subjects) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[m.Subject]; twice {
			t.Errorf("%s comes twice", m.Subject)
		}
		got[m.Subject] = m.Sequence
		if len(m.Data) > large {
			continue
		}
		stored, err := jsapi.Get(t.Context(), js, "S", m.Sequence)
		if err != nil || stored.Subject != m.Subject || string(stored.Data) != string(m.Data) || !stored.Time.Equal(m.Time) {
			t.Errorf("%d: got %s %.40q %v; stored is %+v, %v", m.Sequence, m.Subject, m.Data, m.Time, stored, err)
		}
	}
	return got
}

func TestLasts(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js)
	for _, subjects := range [][]string{nil, {"s.a"}, {"s.a", "t.x"}} {
		if got := lasts(t, js, subjects...); len(got) > 0 {
			t.Errorf("an empty stream: %v has %v", subjects, got)
		}
	}
	const n = 1100
	var asked []string
	for i := range 2 * n {
		if _, err := js.PublishAsync(fmt.Sprint("s.", i%n), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, fmt.Sprint("s.", i)) // of half of them there is no message
	}
	<-js.PublishAsyncComplete()
	got := lasts(t, js, asked...)
	for i := range n {
		if seq := got[fmt.Sprint("s.", i)]; seq != uint64(n+i+1) {
			t.Errorf("s.%d: got %d, want %d", i, seq, n+i+1)
		}
	}
	if len(got) != n {
		t.Errorf("got %d subjects, want %d", len(got), n)
	}
	read := 0
	for range jsapi.Lasts(limited(t), js, "S", asked) {
		if read++; read == 7 {
			break
		}
	}
	if read != 7 {
		t.Errorf("a loop that breaks saw %d", read)
	}
	for _, err := range jsapi.Lasts(limited(t), js, "S", []string{"s.*"}) {
		if !errors.Is(err, jsapi.ErrTooMany) {
			t.Errorf("a wildcard that matches %d: %v", n, err)
		}
	}
}

// An answer of as many parts as the server gives is not lost on a loop that takes its time: all of it arrives while the first is looked at.
func TestLastsMany(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js)
	const n = 1024
	for i := range n {
		if _, err := js.PublishAsync(fmt.Sprint("s.", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	before, got := js.Conn().Stats().InMsgs, 0
	for _, err := range jsapi.Lasts(limited(t), js, "S", []string{"s.*"}) {
		if err != nil {
			t.Fatal(err)
		}
		if got++; got == 1 {
			natstest.Eventually(t, "the whole answer to arrive", func() bool { return js.Conn().Stats().InMsgs > before+n })
		}
	}
	if got != n {
		t.Errorf("got %d of %d", got, n)
	}
}

// An answer stops at a size, and the next one goes on there.
func TestLastsLarge(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js)
	var asked []string
	for i := range 7 {
		asked = append(asked, fmt.Sprint("s.", i))
		if _, err := js.Publish(t.Context(), asked[i], make([]byte, 900<<10)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(asked)
	if got := lasts(t, js, asked...); len(got) != len(asked) {
		t.Errorf("got %v", got)
	}
}

// Headers that a message has of its own do not hide where it is. One that the client library cannot read is left out.
func TestLastsBesideOddHeaders(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	nc := srv.Conn(t, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, js)
	blocks := map[string]string{
		"s.a": "NATS/1.0\r\nStatus: 204\r\n\r\n", "s.b": "NATS/1.0\r\nNats-Sequence: 9000000\r\nNats-Subject: s.x\r\nNats-Num-Pending: 0\r\n\r\n",
		"s.c": "NATS/1.0\r\nno colon\r\n\r\n", "s.d": "NATS/1.0\r\nX: y\r\n\r\n",
	}
	for _, subject := range []string{"s.a", "s.b", "s.c", "s.d"} {
		send(t, srv, subject, blocks[subject], "")
	}
	publish(t, js, "s.e") // when this is stored, all are
	got := lasts(t, js, "s.a", "s.b", "s.c", "s.d")
	if len(got) != 3 || got["s.a"] != 1 || got["s.b"] != 2 || got["s.d"] != 4 {
		t.Errorf("got %v", got)
	}
}

// A message that is stored but cannot be read is neither taken for one that is not there nor for the end of the answer.
func TestLastsOfDamaged(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	fill(t, srv.JetStream(t), "s.a", "s.damaged", "s.b", "s.c")
	srv.Damage(t, "S", "body of s.damaged")
	js := srv.JetStream(t)
	for _, asked := range [][]string{
		{"s.damaged"}, {"s.x", "s.damaged"}, {"s.a", "s.damaged"}, {"s.damaged", "s.b"}, {"s.a", "s.damaged", "s.b", "s.c"}, {"s.*"}, {">"},
	} {
		var failed error
		for _, err := range jsapi.Lasts(limited(t), js, "S", asked) {
			failed = err
		}
		if failed == nil || !strings.Contains(failed.Error(), "404 Message Not Found") {
			t.Errorf("%v: the error is %v", asked, failed)
		}
	}
	for _, asked := range [][]string{{"s.x"}, {"s.a"}, {"s.a", "s.b", "s.c"}} {
		want := len(asked)
		if asked[0] == "s.x" {
			want = 0
		}
		if got := lasts(t, js, asked...); len(got) != want {
			t.Errorf("%v beside a damaged one: got %v", asked, got)
		}
	}
}
