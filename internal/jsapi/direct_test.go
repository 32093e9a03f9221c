package jsapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

// large bodies are not compared with what the leader has of them: its answers are slow under the race detector.
const large = 64 << 10

// bodies reads all bodies of the stream S, and checks where each is said to be.
func bodies(t testing.TB, js jetstream.JetStream, each func(string)) (got []string) {
	t.Helper()
	for b, err := range jsapi.Bodies(limited(t), js, "S") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(b.Data))
		if each != nil {
			each(string(b.Data))
		}
		if len(b.Data) > large {
			continue
		}
		m, err := jsapi.Next(t.Context(), js, "S", ">", b.From)
		for n := 0; err == nil && string(m.Data) != string(b.Data) && n < 512; n++ {
			m, err = jsapi.Next(t.Context(), js, "S", ">", m.Sequence+1)
		}
		if err != nil || string(m.Data) != string(b.Data) {
			t.Errorf("%.40q is not among the 512 messages from %d: %v", b.Data, b.From, err)
		}
	}
	return got
}

func TestBodies(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	s := fill(t, js)
	if got := bodies(t, js, nil); got != nil {
		t.Errorf("an empty stream: got %v", got)
	}
	var want []string
	for i := range 1300 { // more than two answers
		want = append(want, fmt.Sprint("body of s.", i))
		if _, err := js.PublishAsync(fmt.Sprint("s.", i), []byte(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	for _, i := range []int{1299, 700, 513, 512, 511, 3, 0} {
		if err := s.DeleteMsg(t.Context(), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		want = slices.Delete(want, i, i+1)
	}
	if got := bodies(t, js, nil); !slices.Equal(got, want) {
		t.Errorf("got %d bodies, want %d: they differ", len(got), len(want))
	}
	n := 0
	for range jsapi.Bodies(limited(t), js, "S") {
		if n++; n == 600 {
			break
		}
	}
	if n != 600 {
		t.Errorf("a loop that breaks saw %d", n)
	}
}

// An answer stops at a size, and the next one goes on there.
func TestBodiesLarge(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js)
	var want []string
	for i := range 7 {
		want = append(want, fmt.Sprint(i)+strings.Repeat("x", 900<<10))
		if _, err := js.Publish(t.Context(), "s.a", []byte(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	if got := bodies(t, js, nil); !slices.Equal(got, want) {
		t.Errorf("got %d bodies, want %d: they differ", len(got), len(want))
	}
}

func TestBodiesDoNotChase(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js, "s.a", "s.b")
	got := bodies(t, js, func(body string) { // at its end the answer of the server is here already
		publish(t, js, "s.late")
	})
	if want := []string{"body of s.a", "body of s.b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBodiesWithoutDirectReads(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "s.a", "s.b")
	if got, want := bodies(t, js, nil), []string{"body of s.a", "body of s.b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, err := range jsapi.Lasts(limited(t), js, "S", []string{"s.a"}) {
		if err == nil || !strings.Contains(err.Error(), "no replica gives direct reads") {
			t.Errorf("Lasts: %v", err)
		}
	}
}

func TestDirectErrors(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	fill(t, js, "s.a")
	for _, err := range jsapi.Bodies(t.Context(), js, "NONE") {
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("a missing stream: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range jsapi.Bodies(ctx, js, "S") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	for _, err := range jsapi.Lasts(ctx, js, "S", []string{"s.a"}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	js.Conn().Close()
	for _, err := range jsapi.Lasts(t.Context(), js, "S", []string{"s.a"}) {
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

// send publishes a message whose header block no client library would write. It returns when the server has read the message, not
// when it is stored.
func send(t testing.TB, srv *natstest.Server, subject, block, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT {\"headers\":true}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(block), len(block)+len(body), block, body)
	for in := bufio.NewScanner(conn); in.Scan(); {
		if line := in.Text(); strings.HasPrefix(line, "PONG") {
			return
		} else if strings.HasPrefix(line, "-ERR") {
			t.Fatal(line)
		}
	}
	t.Fatal("no answer")
}

// hostile are header blocks that look like a status of the server, or like the place of another message.
var hostile = []string{
	"NATS/1.0\r\nStatus: 204\r\nDescription: EOB\r\n\r\n",
	"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 9000000\r\n\r\n",
	"NATS/1.0\r\nStatus: 204\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 9000000\r\n\r\nX: y\r\n\r\n", // ends early
	"NATS/1.0\r\nStatus: 404\r\n\r\nX: y\r\n\r\n",
	"NATS/1.0\r\nStatus: 503\r\n\r\nX: y\r\n\r\n",
	"NATS/1.0\r\nNats-Sequence: 9000000\r\nNats-Stream: S\r\nNats-Subject: s.x\r\n\r\nX: y\r\n\r\n",
	"NATS/1.0\r\nNats-Sequence: 9000000\r\nNats-Last-Sequence: 9000000\r\n\r\n",
	"NATS/1.0\r\nno colon\r\n\r\n",
	"NATS/1.0\r\n\r\n",
}

// What strangers write beside a body neither ends nor moves a read.
func TestBodiesBesideHostileHeaders(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	fill(t, js)
	var want []string
	for i, block := range hostile {
		for _, body := range []string{"", fmt.Sprint("hostile ", i)} {
			send(t, srv, "s.hostile", block, body)
			publish(t, js, fmt.Sprint("s.", i))
			want = append(want, body, fmt.Sprint("body of s.", i))
		}
	}
	var got []string
	for b, err := range jsapi.Bodies(limited(t), js, "S") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(b.Data))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
