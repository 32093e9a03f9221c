package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// world is one server with everything set up, for one test, and what has happened on it. Reports are named by their
// sites; the handler follows a script and fails the test when it runs more often than the script says.
type world struct {
	testing.TB
	srv    *natstest.Server
	js     jetstream.JetStream // the test's own
	cfg    Config
	script script

	mu       sync.Mutex
	keys     []report.Key
	runs     map[string]int
	outcomes map[string][]Outcome
	workers  []*worker
}

// script is what each run of the handler does, by site.
type script map[string][]run

type run func(context.Context) (report.Result, error)

// quick is a configuration whose delays suit a test. A dead worker's reports are delivered again after
// 1.5 s: long enough for heartbeats on a busy machine.
func quick() Config {
	cfg := DefaultConfig()
	cfg.Workers = 4
	cfg.Queues.AckWait = 1500 * time.Millisecond
	cfg.AttemptTimeout = 2 * time.Minute // longer than a handler is held
	cfg.StopGrace = 20 * time.Second
	cfg.Backoff = report.Backoff{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond, Jitter: 5 * time.Millisecond}
	cfg.Sweep = 100 * time.Millisecond
	cfg.ParkMax = 0     // tests of parking say otherwise
	cfg.ReplayEvery = 0 // a letter stays where it is
	return cfg
}

// steady is quick, but no report is lost by a worker that is late on a busy machine.
func steady() Config {
	cfg := quick()
	cfg.Queues.AckWait = time.Minute
	return cfg
}

func newWorld(t testing.TB, cfg Config, s script) *world {
	t.Helper()
	srv := natstest.Start(t)
	w := &world{TB: t, srv: srv, js: srv.JetStream(t), cfg: cfg, script: s, runs: map[string]int{}, outcomes: map[string][]Outcome{}}
	if err := Setup(t.Context(), w.js, cfg.Queues); err != nil {
		t.Fatal(err)
	}
	return w
}

func uri(site string) string { return "s3://reports/" + site + ".pdf" }

func payload(site string) []byte {
	return fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q,"note":"kept"}`, site, uri(site))
}

// publish hands reports over, one for each site.
func (w *world) publish(sites ...string) {
	w.Helper()
	for _, site := range sites {
		e := report.Event{SiteID: site, SourceURI: uri(site)}
		if _, err := stream.Publish(w.Context(), w.js, e, payload(site)); err != nil {
			w.Fatal(err)
		}
		w.keys = append(w.keys, e.Key())
	}
}

// publishRaw puts any message into the publishers' queue, as a stranger could.
func (w *world) publishRaw(site string, h nats.Header, body []byte) stream.Message {
	w.Helper()
	msg := &nats.Msg{Subject: "reports.submitted." + site, Header: h, Data: body}
	ack, err := w.js.PublishMsg(w.Context(), msg)
	if err != nil {
		w.Fatal(err)
	}
	m, err := w.queues().Stored(w.Context(), stream.Ref{Stream: stream.Reports, Sequence: ack.Sequence})
	if err != nil {
		w.Fatal(err)
	}
	if !slices.Contains(w.keys, m.Key) {
		w.keys = append(w.keys, m.Key)
	}
	return m
}

// handle does what the script says for the next run of a report.
func (w *world) handle(ctx context.Context, e report.Event) (report.Result, error) {
	w.mu.Lock()
	runs, n := w.script[e.SiteID], w.runs[e.SiteID]
	w.runs[e.SiteID]++
	w.mu.Unlock()
	if n >= len(runs) {
		w.Errorf("run %d of %s is not in the script", n+1, e.SiteID)
		return nil, report.Poison(report.CodeUnclassified, errors.New("not in the script"))
	}
	return runs[n](ctx)
}

func (w *world) observe(o Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[o.SiteID] = append(w.outcomes[o.SiteID], o)
}

// saw counts outcomes of a kind.
func (w *world) saw(site string, k Kind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outcomes[site] {
		if o.Kind == k {
			n++
		}
	}
	return n
}

// ran is how often the handler has been called.
func (w *world) ran(site string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[site]
}

func (w *world) await(site string, k Kind) {
	w.Helper()
	natstest.Eventually(w, fmt.Sprintf("%s to be %s", site, k), func() bool { return w.saw(site, k) > 0 })
}

// awaitEmpty waits until neither queue holds a report that somebody could work on.
func (w *world) awaitEmpty() {
	w.Helper()
	natstest.Eventually(w, "the queues to be empty", func() bool {
		left := uint64(0)
		for _, name := range stream.Names() {
			s, err := w.queues().State(context.Background(), name)
			if err != nil {
				return false
			}
			left += s.Stored - s.Parked
		}
		return left == 0
	})
}

// check ends a test: the queues run empty, the workers stop, every report has one fate, and these many have each.
func (w *world) check(want invariant.Tally) {
	w.Helper()
	if want.Waiting == 0 {
		w.awaitEmpty()
	}
	w.stopAll()
	if diff := cmp.Diff(want, invariant.Check(w, w.js, w.keys...)); diff != "" {
		w.Errorf("fates (-want +got):\n%s", diff)
	}
}

func (w *world) queues() *stream.Queues { return stream.New(w.js, w.cfg.Queues) }

func (w *world) ledger() *keyvalue.Ledger {
	w.Helper()
	l, err := keyvalue.OpenLedger(context.Background(), w.js)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) letters() *dlq.Queue {
	w.Helper()
	return dlq.New(w.js, w.queues(), w.ledger(), audit.New(w.js), dlq.DefaultReplayMax)
}

// entry is a report's entry in the ledger.
func (w *world) entry(site string) keyvalue.Entry {
	w.Helper()
	e, err := w.ledger().LookupLeader(context.Background(), report.NewToken(site), report.NewKey(site, uri(site)))
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// letter is a report's dead letter.
func (w *world) letter(site string) dlq.Letter {
	w.Helper()
	l, err := w.letters().Current(context.Background(), report.NewToken(site), report.NewKey(site, uri(site)))
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// checkLetter compares class, code, reason and attempts of a report's letter, and asks for exactly one death.
func (w *world) checkLetter(site string, want dlq.Letter) {
	w.Helper()
	w.checkLetterOf(report.NewKey(site, uri(site)), want)
}

func (w *world) checkLetterOf(key report.Key, want dlq.Letter) {
	w.Helper()
	l, err := w.letters().Current(context.Background(), "*", key)
	if err != nil {
		w.Fatal(err)
	}
	if l.Class != want.Class || l.Code != want.Code || l.Reason != want.Reason || l.Attempts != want.Attempts {
		w.Errorf("letter of %s says %s %s %q after %d attempts, want %s %s %q after %d", l.SiteID(),
			l.Class, l.Code, l.Reason, l.Attempts, want.Class, want.Code, want.Reason, want.Attempts)
	}
	if got := w.events(l.Key, audit.Death); len(got) != 1 || got[0].Hash != l.Hash {
		w.Errorf("deaths of %s are %+v, want one of hash %s", l.SiteID(), got, l.Hash)
	}
}

// events is what the trail says of a report, by kind.
func (w *world) events(key report.Key, kind audit.Kind) (found []audit.Event) {
	w.Helper()
	for e, err := range audit.New(w.js).Log(context.Background(), "*", key) {
		if err != nil {
			w.Fatal(err)
		}
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}
