package consumer

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// slow is a client's way to the server on which nothing arrives between the first pull of many reports and a call of goOn.
type slow struct {
	once sync.Once
	held chan struct{} // closed by goOn
	asks chan struct{} // closed by the pull
}

func (s *slow) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return slowConn{conn, s}, err
}

func (s *slow) goOn() { close(s.held) }

type slowConn struct {
	net.Conn
	*slow
}

func (c slowConn) Write(p []byte) (int, error) {
	if many := regexp.MustCompile(`MSG\.NEXT\.REPORTS\.workers [^{]*\{"batch": ([89]|\d\d)`); many.Match(p) {
		c.once.Do(func() { close(c.asks) })
	}
	return c.Conn.Write(p)
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.asks:
		<-c.held
	default:
	}
	return n, err
}

// What a pull brings after it was given up is worked all the same, once, and by no more at a time than there are slots.
func TestPullIsLate(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 64
	cfg.Queues.AckWait = time.Minute
	w := newWorld(t, cfg, script{})
	const reports = 200
	var running, most atomic.Int64
	for i := range reports {
		site := fmt.Sprint("R", i)
		w.script[site] = []run{func(ctx context.Context) (report.Result, error) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			return succeed(ctx)
		}}
		w.publish(site)
	}
	way := &slow{held: make(chan struct{}), asks: make(chan struct{})}
	k := w.open(nats.SetCustomDialer(way))
	w.run(k)
	awaitClosed(t, "a pull of many", way.asks)
	natstest.Eventually(t, "the pull to be given up", func() bool { // but for those with which the queues are asked again
		k.slots.mu.Lock()
		defer k.slots.mu.Unlock()
		return k.slots.kept >= k.slots.most-2
	})
	way.goOn()
	w.check(invariant.Tally{Done: reports})
	for i := range reports {
		if n := w.ran(fmt.Sprint("R", i)); n != 1 {
			t.Errorf("R%d ran %d times", i, n)
		}
	}
	if n := most.Load(); n > int64(cfg.Workers) {
		t.Errorf("%d ran at once", n)
	}
}

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
			if got, _, more, err = p.pull(mostPulled-brought, true); err != nil || pulls == 10*reports { // a busy server may let some expire
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
	for got := 0; got == 0; { // a busy server may let one expire
		reports, _, _, err := p.pull(1, true)
		if err != nil {
			t.Fatalf("a pull of one: %v", err)
		}
		got = len(reports)
	}
}

// A pull that its reports fill to the byte ends without a word of the server. It is over when they have come, and the next one goes on.
func TestPullIsFull(t *testing.T) {
	t.Parallel()
	header := nats.Header{"x-y": {"  z ", "z"}}
	for name, tt := range map[string]struct {
		like     nats.Msg
		fill     int  // of three that are asked for
		wait     bool // a busy server may let one that only looks expire before it has brought all
		replicas int
	}{
		"a pull that looks": {nats.Msg{Data: []byte("x")}, 1, false, 1},
		"one fills it":      {nats.Msg{Data: []byte("x")}, 1, true, 1},
		"two fill it":       {nats.Msg{Data: []byte("x")}, 2, true, 1},
		"three fill it":     {nats.Msg{Data: []byte("x")}, 3, true, 1},
		"large":             {nats.Msg{Data: bytes.Repeat([]byte("x"), 100<<10)}, 2, true, 1},
		"with headers":      {nats.Msg{Header: header, Data: []byte("x")}, 2, true, 1},
		"headers alone":     {nats.Msg{Header: header}, 2, true, 1},
		"nothing in them":   {nats.Msg{}, 2, true, 1},
		"replicated":        {nats.Msg{Data: []byte("x")}, 2, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Queues.AckWait, cfg.Queues.Replicas = time.Minute, tt.replicas
			var js jetstream.JetStream
			if tt.replicas == 1 {
				js = natstest.Start(t).JetStream(t)
			} else {
				js = natstest.StartCluster(t).JetStream(t)
			}
			if err := stream.Setup(t.Context(), js, cfg.Queues); err != nil {
				t.Fatal(err)
			}
			const reports = 6 // one digit is enough for every number in their reply subjects: all have one size
			for range reports {
				msg := tt.like
				msg.Subject = "reports.submitted.R"
				if _, err := js.PublishMsg(t.Context(), &msg); err != nil {
					t.Fatal(err)
				}
			}
			p, err := (&Consumer{js: js, cfg: cfg}).newPuller(stream.Reports)
			if err != nil {
				t.Fatal(err)
			}
			pull := func(most int, wait bool) (got []*nats.Msg) {
				for len(got) == 0 { // a busy server may let a pull expire that is only to look
					for more := true; more; {
						var some []*nats.Msg
						if some, _, more, err = p.pull(most-len(got), wait); err != nil {
							t.Fatalf("after %d reports: %v", len(got), err)
						}
						got = append(got, some...)
					}
				}
				return got
			}
			p.bytes = tt.fill * pull(1, false)[0].Size()
			for _, want := range []int{tt.fill, min(tt.fill, reports-1-tt.fill)} {
				if got := pull(3, tt.wait); len(got) != want {
					t.Errorf("a pull has brought %d reports, want %d", len(got), want)
				}
			}
		})
	}
}

// Each pull of a backlog brings reports: the server's word that the one before is complete is not taken for its answer.
func TestPullsInARow(t *testing.T) {
	t.Parallel()
	const reports, most = 40, 5
	cfg := quick()
	cfg.Queues.AckWait = time.Minute // a pull that waits does so for long: a busy server lets none expire
	w := newWorld(t, cfg, script{})
	for i := range reports {
		w.publish(fmt.Sprint("R", i))
	}
	k := w.open()
	p, err := k.newPuller(stream.Reports)
	if err != nil {
		t.Fatal(err)
	}
	for got := 0; got < reports; {
		for left := most; ; {
			messages, _, more, err := p.pull(left, true)
			if err != nil || len(messages) == 0 {
				t.Fatalf("after %d of %d: %d reports, %v", got, reports, len(messages), err)
			}
			got += len(messages)
			if left -= len(messages); !more {
				if left > 0 {
					t.Fatalf("after %d of %d a pull ended with %d reports to come", got, reports, left)
				}
				if err := k.nc.Flush(); err != nil { // the word is here now, if there is one
					t.Fatal(err)
				}
				break
			}
		}
	}
}
