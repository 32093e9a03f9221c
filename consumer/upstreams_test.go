package consumer

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// An upstream answers again when it is first seen to succeed, and after failures; a later failure takes that back.
func TestUpstreamAnswersAgain(t *testing.T) {
	t.Parallel()
	c := &Consumer{cfg: DefaultConfig()}
	d := &delivery{Message: stream.Message{Event: report.Event{SourceURI: "https://user:secret@portal.example/q2.pdf"}}}
	const name = "https://portal.example"
	for i, step := range []struct {
		o    Outcome
		want bool
	}{
		{Outcome{Kind: Succeeded}, true}, // for the first time
		{Outcome{Kind: Succeeded}, true},
		{Outcome{Kind: Retried, Code: report.CodeTimeout}, false},
		{Outcome{Kind: Duplicate}, false},
		{Outcome{Kind: HandedBack}, false},
		{Outcome{Kind: Buried, Class: report.ClassPoison, Code: report.CodeMalformedPDF}, false},
		{Outcome{Kind: Succeeded}, true},
		{Outcome{Kind: Buried, Class: report.ClassPoison, Code: report.CodeMalformedPDF}, true}, // it did answer
		{Outcome{Kind: Buried, Class: report.ClassAbandoned, Code: report.CodeAbandoned}, true},
		{Outcome{Kind: Buried, Class: report.ClassExhausted, Code: report.CodeTimeout}, false},
	} {
		c.note(d, step.o)
		if _, got := c.upstreams.due()[name]; got != step.want {
			t.Errorf("step %d, %+v: to be replayed %v, want %v", i, step.o, got, step.want)
		}
	}
	c.note(d, Outcome{Kind: Succeeded})
	since := c.upstreams.due()[name]
	c.upstreams.later(name, time.Hour)
	if due := c.upstreams.due(); len(due) != 0 {
		t.Errorf("put off for an hour, %v are due", due)
	}
	c.upstreams.later(name, -time.Second)
	c.upstreams.failed(name)
	c.upstreams.answered(name)
	c.upstreams.settle(name, since)
	if due := c.upstreams.due(); len(due) != 1 {
		t.Error("that it answered once more is settled by what was done before")
	}
	c.upstreams.settle(name, c.upstreams.due()[name])
	c.note(d, Outcome{Kind: Succeeded})
	if due := c.upstreams.due(); len(due) != 0 {
		t.Errorf("settled, and nothing has failed since: %v are due", due)
	}
}

// What a worker has seen of an upstream meets a turn that was given back since: what is remembered then decides whether the letters are
// ever replayed because the upstream answers.
func TestTurnGivenBackSince(t *testing.T) {
	t.Parallel()
	const name = "https://portal.example"
	for _, tt := range []struct {
		what   string
		holder string
		died   bool // the canary
		due    bool // to be replayed, once the pause is over
		again  bool // and after one more success
	}{
		{"another worker has replayed them", "worker-2", false, false, false},
		{"this worker has, on schedule", "", false, false, false},
		{"another worker's canary has died", "worker-2", true, false, true},
		{"it answered while this worker gave back the turn, its canary dead", "", true, true, true},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{"TWR-1": {poison}})
			w.publish("TWR-1")
			w.start()
			w.await("TWR-1", Buried)
			w.cfg.ReplayEvery, w.cfg.ReplayRate = time.Hour, 5
			c := w.open()
			c.upstreams.answered(name)
			turn, _, won, err := c.takeUpstream(t.Context(), name, true)
			if !won || err != nil {
				t.Fatal(won, err)
			}
			turn.Over, turn.Pause = true, c.holding()
			if tt.holder != "" {
				turn.Holder = tt.holder
			}
			if tt.died {
				turn.Pause *= 2
			}
			if _, err := c.turns.Renew(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if taken, _, err := c.takeRecovered(t.Context(), c.upstreams.due(), semaphore.NewWeighted(1)); len(taken) > 0 || err != nil {
				t.Fatalf("took %v, %v, want nothing during the pause", taken, err)
			}
			due := func() bool {
				c.upstreams.later(name, -time.Second)
				return len(c.upstreams.due()) > 0
			}
			if got := due(); got != tt.due {
				t.Errorf("after the pause, to be replayed %v, want %v", got, tt.due)
			}
			c.upstreams.answered(name)
			if got := due(); got != tt.again {
				t.Errorf("after one more success, to be replayed %v, want %v", got, tt.again)
			}
			w.check(invariant.Tally{Dead: 1})
		})
	}
}

func TestPathsHaveNoUpstream(t *testing.T) {
	t.Parallel()
	c := &Consumer{cfg: DefaultConfig()}
	c.note(&delivery{Message: stream.Message{Event: report.Event{SourceURI: "reports/q2.pdf"}}}, Outcome{Kind: Succeeded})
	if due := c.upstreams.due(); len(due) != 0 {
		t.Errorf("%v are due", due)
	}
}

func TestNothingIsNotedWithoutReplays(t *testing.T) {
	t.Parallel()
	c := &Consumer{cfg: quick()}
	c.note(&delivery{Message: stream.Message{Event: report.Event{SourceURI: "https://portal.example/q2.pdf"}}}, Outcome{Kind: Succeeded})
	if len(c.upstreams.known) != 0 {
		t.Error("an upstream is remembered although replays are off")
	}
}

// Publishers choose the hosts: what a worker remembers is bounded, and those that fail come first.
func TestUpstreamsAreBounded(t *testing.T) {
	t.Parallel()
	var u upstreams
	for i := range 2 * knownHosts {
		name := fmt.Sprintf("https://%d.example", i)
		u.answered(name)
		u.settle(name, u.due()[name])
	}
	if len(u.known) != knownHosts || len(u.due()) != 0 {
		t.Fatalf("%d are remembered and %d are due, want %d and none: one more would be seen for the first time each time", len(u.known), len(u.due()), knownHosts)
	}
	for i := range 2 * knownHosts {
		u.failed(fmt.Sprintf("sftp://%d.example", i))
	}
	if len(u.known) != knownHosts {
		t.Errorf("%d are remembered, want %d", len(u.known), knownHosts)
	}
	u.answered("sftp://5.example")
	u.answered("https://5.example")
	u.failed("sftp://one.more.example")
	if due := u.due(); len(due) != 1 || due["sftp://5.example"].IsZero() {
		t.Errorf("%v are due, want the one that failed before", due)
	}
}
