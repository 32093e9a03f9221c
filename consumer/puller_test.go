package consumer

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/stream"
)

// unanswered returns a puller whose pulls nobody answers but the test.
func unanswered(t *testing.T, cfg Config) *puller {
	t.Helper()
	w := newWorld(t, cfg, script{})
	p, err := w.open().newPuller(stream.Reports)
	if err != nil {
		t.Fatal(err)
	}
	p.next = "pulls"
	nc := w.srv.Conn(t)
	if _, err := nc.Subscribe(p.next, func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return p
}

// answers are what comes for a pull, as the server sends it: reports, which have no header here, and words about it.
func answers(sub *nats.Subscription, number string, words ...nats.Header) (all []*nats.Msg) {
	for _, h := range words {
		m := &nats.Msg{Subject: "inbox." + number, Header: h, Sub: sub}
		if h == nil {
			m.Reply = "$JS.ACK.REPORTS.workers.1.1.1.1.0"
		}
		all = append(all, m)
	}
	return all
}

// The word that ends a pull overtakes reports of a replicated stream. The pull is over when the reports have come, too.
func TestPullEndsBeforeItsReports(t *testing.T) {
	t.Parallel()
	word := func(status, description, missing string) nats.Header {
		return nats.Header{"Status": {status}, "Description": {description}, "Nats-Pending-Messages": {missing}}
	}
	for name, tt := range map[string]struct {
		words []nats.Header
		want  int
	}{
		"complete":     {[]nats.Header{word("409", "Batch Completed", "0"), nil, nil, nil}, 3},
		"between":      {[]nats.Header{nil, word("409", "Batch Completed", "0"), nil, nil}, 3},
		"out of bytes": {[]nats.Header{word("409", "Message Size Exceeds MaxBytes", "1"), nil, nil}, 2},
		"out of time":  {[]nats.Header{nil, word("408", "Request Timeout", "2")}, 1},
		"empty":        {[]nats.Header{{"Status": {"404"}, "Description": {"No Messages"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.Queues.AckWait = time.Minute
			p := unanswered(t, cfg)
			before := time.Now()
			if err := p.ask(3, false); err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, m := range answers(p.sub, "1", tt.words...) {
				p.answers <- m
				reports, since, _, err := p.pull(3-got, false)
				if err != nil {
					t.Fatal(err)
				}
				if len(reports) > 0 && since.Before(before) {
					t.Errorf("%d reports are taken for those of an older pull", len(reports))
				}
				got += len(reports)
			}
			if got != tt.want || len(p.open) > 0 || p.number != 1 {
				t.Errorf("%d pulls have brought %d reports and %d are open, want %d from the first", p.number, got, len(p.open), tt.want)
			}
		})
	}
}

// A report that comes after its pull was given up is not taken for one of the next pull: the server may have given it to somebody else
// meanwhile.
func TestLateReportIsOld(t *testing.T) {
	t.Parallel()
	p := unanswered(t, quick())
	if err := p.ask(1, false); err != nil {
		t.Fatal(err)
	}
	first := p.sub
	if err := p.listen(); err != nil { // it was given up, and is forgotten
		t.Fatal(err)
	}
	clear(p.open)
	if err := p.ask(1, false); err != nil {
		t.Fatal(err)
	}
	asked := p.open["2"].sent
	p.answers <- answers(first, "", nil)[0] // both have come when the first is taken
	p.answers <- answers(p.sub, "", nil)[0]
	for _, late := range []bool{true, false} {
		reports, since, more, err := p.pull(2, false)
		if len(reports) != 1 || since.IsZero() != late || !late && since.Before(asked) || more != late || err != nil {
			t.Errorf("%d reports, delivered after %v, more: %t, %v; the pull was asked at %v", len(reports), since, more, err, asked)
		}
	}
}

// What is left at the end is told apart: what came late counts as lost, and the rest can be handed back.
func TestPullerClosed(t *testing.T) {
	t.Parallel()
	p := unanswered(t, quick())
	if err := p.ask(1, false); err != nil {
		t.Fatal(err)
	}
	first := p.sub
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	clear(p.open)
	if err := p.ask(2, false); err != nil {
		t.Fatal(err)
	}
	asked := p.open["2"].sent
	for _, of := range []*nats.Subscription{p.sub, first, p.sub} {
		p.answers <- answers(of, "", nil)[0]
	}
	if left, since, late := p.close(); len(left) != 2 || !since.Equal(asked) || len(late) != 1 {
		t.Errorf("%d are left, delivered after %v, and %d late ones; want two after %v, and one", len(left), since, len(late), asked)
	}
}

// After a connection was lost its pulls are forgotten, and further ones are answered elsewhere.
func TestPullerReconnected(t *testing.T) {
	t.Parallel()
	p := unanswered(t, quick())
	if err := p.ask(1, false); err != nil {
		t.Fatal(err)
	}
	before := p.sub
	p.reconnects-- // as if there had been one
	if _, _, _, err := p.pull(1, false); !errors.Is(err, errReconnected) || len(p.open) > 0 || p.sub == before {
		t.Errorf("%v, and %d pulls are open", err, len(p.open))
	}
}
