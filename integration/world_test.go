package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// script is what the handler does with a report at its n-th run, from 1.
type script func(ctx context.Context, e report.Event, run int) (report.Result, error)

// succeed is the script in which nothing goes wrong.
func succeed(context.Context, report.Event, int) (report.Result, error) { return nil, nil }

// world is one server with everything set up, and what a test has done to it. All but handle and observe are called
// from the test's goroutine.
type world struct {
	testing.TB
	srv     *natstest.Server    // nil in a cluster
	cluster *natstest.Cluster   // nil with one server
	js      jetstream.JetStream // the test's own connection
	streams []jetstream.Stream  // the two queues
	cfg     consumer.Config     // of every worker
	queues  *stream.Queues
	ledger  *keyvalue.Ledger
	sites   *keyvalue.Sites
	trail   *audit.Trail
	letters *dlq.Queue
	finder  *fate.Finder

	script    script
	published []report.Key
	workers   []*worker
	ended     bool

	mu       sync.Mutex
	runs     map[report.Key]int
	order    []report.Key // of the runs
	outcomes map[report.Key][]consumer.Kind
}

// newWorld starts a server and sets it up with quick delays, which the changes may alter. AckWait is so long that no test
// depends on it by accident.
func newWorld(t testing.TB, s script, changes ...func(*consumer.Config)) *world {
	t.Helper()
	return makeWorld(&world{TB: t, srv: natstest.Start(t), script: s}, changes)
}

// newClusterWorld is newWorld with three servers, and three replicas of everything.
func newClusterWorld(t testing.TB, s script, changes ...func(*consumer.Config)) *world {
	t.Helper()
	replicated := func(cfg *consumer.Config) { cfg.Queues.Replicas = 3 }
	return makeWorld(&world{TB: t, cluster: natstest.StartCluster(t), script: s}, append([]func(*consumer.Config){replicated}, changes...))
}

func makeWorld(w *world, changes []func(*consumer.Config)) *world {
	t := w.TB
	t.Helper()
	cfg := consumer.DefaultConfig()
	cfg.Workers = 4
	cfg.Queues.AckWait = 15 * time.Second
	cfg.AttemptTimeout = 2 * time.Minute // longer than a handler is held
	cfg.StopGrace = 5 * time.Second
	cfg.Backoff = report.Backoff{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond, Jitter: 5 * time.Millisecond}
	cfg.Sweep = 200 * time.Millisecond
	cfg.ParkMax = 0     // tests of parking say otherwise
	cfg.ReplayEvery = 0 // a letter stays where it is
	for _, change := range changes {
		change(&cfg)
	}
	w.cfg, w.runs, w.outcomes = cfg, map[report.Key]int{}, map[report.Key][]consumer.Kind{}
	var err error
	w.js, err = jetstream.New(w.conn())
	w.must(err)
	w.must(consumer.Setup(t.Context(), w.js, cfg.Queues))
	for _, name := range stream.Names() {
		s, err := w.js.Stream(t.Context(), name)
		w.must(err)
		w.streams = append(w.streams, s)
	}
	w.ledger, err = keyvalue.OpenLedger(t.Context(), w.js)
	w.must(err)
	w.sites, err = keyvalue.OpenSites(t.Context(), w.js)
	w.must(err)
	w.queues, w.trail = stream.New(w.js, cfg.Queues), audit.New(w.js)
	w.letters = dlq.New(w.js, w.queues, w.ledger, w.trail, dlq.DefaultReplayMax)
	w.finder = fate.New(w.queues, w.letters, w.ledger, w.trail)
	t.Cleanup(func() {
		if !w.ended && !t.Failed() {
			t.Error("the test did not end with the invariant check")
		}
	})
	return w
}

// conn is a new connection to the server, or to one of the cluster.
func (w *world) conn(opts ...nats.Option) *nats.Conn {
	w.Helper()
	if w.cluster != nil {
		return w.cluster.Conn(w, opts...)
	}
	return w.srv.Conn(w, opts...)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// body is an event as a publisher writes it.
func body(site, uri string) []byte {
	b, err := json.Marshal(report.Event{SiteID: site, SourceURI: uri})
	if err != nil {
		panic(err)
	}
	return b
}

// publish hands a report over the way the product does, and fails the test if it is taken for a duplicate.
func (w *world) publish(site, uri string) report.Key {
	w.Helper()
	e := report.Event{SiteID: site, SourceURI: uri}
	duplicate, err := stream.Publish(w.Context(), w.js, e, body(site, uri))
	w.must(err)
	if duplicate {
		w.Fatalf("%s %s was taken for a duplicate", site, uri)
	}
	w.published = append(w.published, e.Key())
	return e.Key()
}

// raw hands over any message, as a publisher with a client of its own could. There is no Nats-Msg-Id unless the
// header names one, so the duplicate window has no part in it.
func (w *world) raw(site string, h nats.Header, payload []byte) report.Key {
	w.Helper()
	_, err := w.js.PublishMsg(w.Context(), &nats.Msg{Subject: "reports.submitted." + string(report.NewToken(site)), Header: h, Data: payload})
	w.must(err)
	return w.record(payload)
}

// record notes that a payload was handed over, and returns its key.
func (w *world) record(payload []byte) report.Key {
	key := stream.Read(stream.Ref{}, "", nil, payload, time.Time{}).Key
	w.published = append(w.published, key)
	return key
}

func (w *world) handle(ctx context.Context, e report.Event) (report.Result, error) {
	key := e.Key()
	w.mu.Lock()
	w.runs[key]++
	run := w.runs[key]
	w.order = append(w.order, key)
	w.mu.Unlock()
	return w.script(ctx, e, run)
}

func (w *world) observe(o consumer.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[o.Key] = append(w.outcomes[o.Key], o.Kind)
}

// worker is one consumer on a connection of its own.
type worker struct {
	nc   *nats.Conn
	line line
	stop func() // as an operator does: waits until Run has returned
	kill func() // as if the process died: its connection is gone
}

// work starts a worker, whose settings the changes may alter. It is stopped at the latest when the test ends.
func (w *world) work(changes ...func(*consumer.Config)) *worker {
	w.Helper()
	cfg := w.cfg
	cfg.Observe = w.observe
	cfg.Worker = fmt.Sprintf("worker-%d", len(w.workers)+1)
	for _, change := range changes {
		change(&cfg)
	}
	out := &worker{}
	out.nc = w.conn(nats.SetCustomDialer(&out.line),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // headers that the client cannot read
	js, err := jetstream.New(out.nc)
	w.must(err)
	c, err := consumer.Open(w.Context(), js, w.handle, cfg, slog.New(slog.NewTextHandler(w.Output(), nil)))
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	wait := sync.OnceValue(func() error { return <-ended })
	killed := false
	out.stop = func() {
		cancel()
		if err := wait(); err != nil && !killed {
			w.Errorf("Run: %v", err)
		}
	}
	out.kill = func() {
		killed = true
		out.nc.Close()
		cancel()
		_ = wait()
	}
	w.workers = append(w.workers, out)
	w.Cleanup(out.stop)
	return out
}

// stop stops every worker and waits for them.
func (w *world) stop() {
	var all sync.WaitGroup
	for _, worker := range w.workers {
		all.Go(worker.stop)
	}
	all.Wait()
}

// drain waits until nothing but parked reports is stored in either queue.
func (w *world) drain() {
	w.Helper()
	natstest.Eventually(w, "both queues to be empty", seldom(func() bool { return w.stored() == 0 }))
}

// seldom asks only at every fifth look: looking costs the server as much as working does.
func seldom(cond func() bool) func() bool {
	n := 0
	return func() bool {
		n++
		return n%5 == 1 && cond()
	}
}

// stored is how many messages the two queues hold, parked ones aside; -1 if the server does not say.
func (w *world) stored() int {
	n := 0
	for _, s := range w.streams {
		info, err := s.Info(w.Context(), jetstream.WithSubjectFilter("reports.parked.>"))
		if err != nil {
			return -1
		}
		n += int(info.State.Msgs)
		for _, parked := range info.State.Subjects {
			n -= int(parked)
		}
	}
	return n
}

// ends stops the workers and checks the promise, and how many reports have which fate.
func (w *world) ends(want invariant.Tally) {
	w.Helper()
	w.stop()
	w.ended = true
	if diff := cmp.Diff(want, invariant.Check(w, w.js, w.published...)); diff != "" {
		w.Errorf("tally (-want +got):\n%s", diff)
	}
}
