package chaos

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// publishers is how many publications may wait for the server's word at once.
const publishers = 32

// publisher hands the reports of a plan over, as publishers do: through the proxies, again and again until each is acknowledged.
type publisher struct {
	plan    *Plan
	nc      *nats.Conn
	js      jetstream.JetStream
	refused atomic.Int64 // tries that failed

	mu    sync.Mutex
	acked map[report.Key]bool
}

func newPublisher(p *Plan, urls []string) (*publisher, error) {
	nc, err := nats.Connect(strings.Join(urls, ","), clientOptions()...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	return &publisher{plan: p, nc: nc, js: js, acked: map[report.Key]bool{}}, err
}

// run spreads the publications over the duration, or sends them as fast as they are taken if it lags behind. It returns when all are
// acknowledged or ctx ends.
func (p *publisher) run(ctx context.Context) {
	todo := make(chan send)
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			for s := range todo {
				p.send(ctx, s)
			}
		})
	}
	began := time.Now()
	for i, s := range p.plan.sends {
		due := time.Duration(float64(i) / float64(len(p.plan.sends)) * float64(p.plan.Config.Duration))
		pause(ctx, due-time.Since(began))
		if ctx.Err() != nil {
			break
		}
		todo <- s
	}
	close(todo)
	all.Wait()
}

// send publishes once, until that is acknowledged.
func (p *publisher) send(ctx context.Context, s send) {
	r := p.plan.Reports[s.report]
	for ctx.Err() == nil {
		err := p.try(ctx, r, s.bare)
		if err == nil {
			p.mu.Lock()
			p.acked[r.Key] = true
			p.mu.Unlock()
			return
		}
		p.refused.Add(1)
		pause(ctx, 250*time.Millisecond)
	}
}

func (p *publisher) try(ctx context.Context, r Report, bare bool) error {
	if !bare && r.Fate != Undecodable {
		e, err := report.Decode(r.Body)
		if err == nil {
			_, err = stream.Publish(ctx, p.js, e, r.Body)
		}
		return err
	}
	m := &nats.Msg{Subject: "reports.submitted." + string(report.NewToken(r.Site)), Header: nats.Header{}, Data: r.Body}
	if !bare {
		m.Header.Set(jetstream.MsgIDHeader, string(r.Key))
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := p.js.PublishMsg(ctx, m, jetstream.WithExpectStream(stream.Reports))
	return err
}
