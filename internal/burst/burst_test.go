package burst

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
)

// When all calls have returned, a flush brings every message to the server, once.
func TestPublish(t *testing.T) {
	t.Parallel()
	const publishers, each = 50, 40
	server := natstest.Start(t)
	nc, listener := server.Conn(t), server.Conn(t)
	sub, err := listener.SubscribeSync("burst.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Flush(); err != nil {
		t.Fatal(err)
	}
	p := New(nc)
	var all sync.WaitGroup
	for i := range publishers {
		all.Go(func() {
			for j := range each {
				p.Publish(&nats.Msg{Subject: fmt.Sprint("burst.", i*each+j)}, func(err error) { t.Error(err) })
			}
		})
	}
	all.Wait()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < publishers*each {
		m, err := sub.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(seen), err)
		}
		if seen[m.Subject] {
			t.Fatalf("%s comes twice", m.Subject)
		}
		seen[m.Subject] = true
	}
}

// Nobody sends for the others for ever: here there is more whenever the sender looks. And each whose message the connection does not take
// is told so.
func TestSenderIsRelieved(t *testing.T) {
	t.Parallel()
	const most = 10_000
	nc := natstest.Start(t).Conn(t)
	nc.Close()
	var (
		p               = New(nc)
		told, published atomic.Int64
		relieved        atomic.Bool
		others          sync.WaitGroup
		failed          func(error)
	)
	publish := func() {
		published.Add(1)
		p.Publish(&nats.Msg{Subject: "burst"}, failed)
	}
	waits := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.queue) > 0
	}
	failed = func(error) {
		if told.Add(1); !relieved.Load() && published.Load() < most {
			for others.Go(publish); !waits() && !relieved.Load(); {
				runtime.Gosched()
			}
		}
	}
	publish()
	if published.Load() >= most {
		t.Errorf("one caller had to send %d messages", most)
	}
	relieved.Store(true)
	others.Wait()
	if told.Load() != published.Load() {
		t.Errorf("%d of %d messages failed", told.Load(), published.Load())
	}
}
