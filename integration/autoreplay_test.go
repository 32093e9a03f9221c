package integration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/extract"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// onRecovery lets workers replay what an upstream has kept when it answers again, and nothing on schedule. All times are a fraction of
// the interval: looks come every 40th, and a turn is held for a tenth.
func onRecovery(every time.Duration) func(*consumer.Config) {
	return func(cfg *consumer.Config) {
		cfg.ReplayEvery, cfg.ReplayClasses, cfg.ReplayRate = every, nil, 500
		cfg.Queues.MaxAttempts = 2
	}
}

// portal is a source that can be down.
type portal struct{ up atomic.Bool }

func (p *portal) script(context.Context, report.Event, int) (report.Result, error) {
	if !p.up.Load() {
		return nil, report.Transient(report.CodeServerError, errors.New("503"))
	}
	return nil, nil
}

// die publishes reports of one source and waits until all are dead.
func (w *world) die(n int) (keys []report.Key) {
	w.Helper()
	for i := range n {
		keys = append(keys, w.publish(fmt.Sprint("TWR-", i), "https://portal.example/q2.pdf"))
	}
	w.drain()
	for _, key := range keys {
		w.letter(key)
	}
	return keys
}

// wantReplays checks how often a report was replayed, and by whom and why.
func (w *world) wantReplays(key report.Key, want int, why string) {
	w.Helper()
	events := w.events(key, audit.Replay)
	for _, e := range events {
		if e.Reason != why || len(e.Actor) < 8 || e.Actor[:7] != "worker-" {
			w.Errorf("%s was replayed by %q: %q, want a worker, %q", key.Short(), e.Actor, e.Reason, why)
		}
	}
	if len(events) != want {
		w.Errorf("%s was replayed %d times, want %d", key.Short(), len(events), want)
	}
}

// allReplays counts the replays in the trail.
func (w *world) allReplays() (n int) {
	for e, err := range w.trail.All(w.Context()) {
		w.must(err)
		if e.Kind == audit.Replay {
			n++
		}
	}
	return n
}

// A source is down for long enough to exhaust fifty reports, and comes back: all fifty land with no one typing anything, once each,
// although three workers see that it is back.
func TestSourceComesBack(t *testing.T) {
	t.Parallel()
	const lost = 50
	var up atomic.Bool
	files := http.FileServer(http.Dir("../testdata/reports"))
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			http.Error(rw, "down for maintenance", http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(rw, r)
	}))
	t.Cleanup(site.Close)
	x, err := extract.Open(t.Context(), extract.Config{
		Source: source.Config{AllowHosts: []string{"127.0.0.1"}, HostConcurrency: 16}, CacheDir: extract.DefaultCacheDir(),
	}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	w := newWorld(t, func(ctx context.Context, e report.Event, _ int) (report.Result, error) { return x.Extract(ctx, e) }, onRecovery(20*time.Second))
	var saw [3]atomic.Int64 // successes, by worker
	for i := range saw {
		w.work(func(cfg *consumer.Config) {
			cfg.Observe = func(o consumer.Outcome) {
				if o.Kind == consumer.Succeeded {
					saw[i].Add(1)
				}
				w.observe(o)
			}
		})
	}
	var keys []report.Key
	for i := range lost {
		keys = append(keys, w.publish(fmt.Sprint("TWR-", i), site.URL+"/twr8842_q2.pdf"))
	}
	unreadable := w.publish("TWR-0", "ftp://portal.example/q2.pdf") // poison
	w.drain()
	for _, key := range keys {
		w.wantRuns(key, 2)
		if l := w.letter(key); l.Class != report.ClassExhausted || l.Upstream != site.URL {
			t.Fatalf("letter of %s: %s at %s", key.Short(), l.Class, l.Upstream)
		}
	}

	up.Store(true)
	fresh := 0
	for ; fresh < 30 || saw[0].Load() == 0 || saw[1].Load() == 0 || saw[2].Load() == 0; fresh++ {
		key := w.publish(fmt.Sprint("FRESH-", fresh), site.URL+"/twr8842_q2.pdf")
		if fresh >= 30 {
			natstest.Eventually(t, "a fresh report to land", seldom(func() bool { return len(w.settled(key)) > 0 }))
		}
	}
	for _, key := range keys {
		natstest.Eventually(t, "every report to land", seldom(func() bool { _, err := w.ledger.LookupLeader(t.Context(), "*", key); return err == nil }))
	}
	w.drain()
	w.stop()
	for _, key := range keys {
		w.wantRuns(key, 3)
		w.wantReplays(key, 1, site.URL+" answers again")
		w.noLetter(key)
	}
	w.wantReplays(unreadable, 0, "")
	w.ends(invariant.Tally{Done: lost + fresh, Dead: 1})
}

// A source that answers now and then, but never when the canary comes: each time only the canary is charged, the next comes later, and
// nothing is quarantined.
func TestSourceFlaps(t *testing.T) {
	t.Parallel()
	const letters, flaps = 30, 3
	var out, most atomic.Int64 // replayed reports in work
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SiteID[0] == 'F' {
			return nil, nil
		}
		if run > 2 {
			most.Store(max(most.Load(), out.Add(1)))
			defer out.Add(-1)
		}
		return nil, report.Transient(report.CodeServerError, errors.New("503"))
	}, onRecovery(8*time.Second))
	w.work()
	keys := w.die(letters)
	kv, err := w.js.KeyValue(t.Context(), "reports_turns")
	w.must(err)
	var pauses []string
	fresh := 0
	for n := range flaps {
		natstest.Eventually(t, "the next canary", seldom(func() bool {
			w.publish(fmt.Sprint("FRESH-", fresh), "https://portal.example/q3.pdf") // it answers again
			fresh++
			return w.allReplays() > n
		}))
		natstest.Eventually(t, "the canary to die", func() bool {
			e, err := kv.Get(t.Context(), "upstream.https=3A=2F=2Fportal=2Eexample")
			if err != nil || len(pauses) > 0 && string(e.Value()) == pauses[len(pauses)-1] {
				return false
			}
			var holder, pause string
			_, _ = fmt.Sscanf(string(e.Value()), `{"holder":%q,"over":true,"pause":%s`, &holder, &pause)
			if pause == "" {
				return false
			}
			pauses = append(pauses, string(e.Value()))
			return true
		})
	}
	w.drain()
	w.stop()
	for i, want := range []string{"1600000000", "3200000000", "6400000000"} { // twice, four, eight times what a turn is held for
		if got := pauses[i]; got != fmt.Sprintf(`{"holder":"worker-1","over":true,"pause":%s}`, want) {
			t.Errorf("after flap %d the turn is %s, want a pause of %s", i+1, got, want)
		}
	}
	charged := 0
	for _, key := range keys {
		l := w.letter(key)
		if charged += l.Replays; l.Replays > 1 || w.letters.Quarantined(l) {
			t.Errorf("%s was replayed %d times, want at most once", key.Short(), l.Replays)
		}
		w.wantReplays(key, l.Replays, "https://portal.example answers again")
	}
	if charged != flaps || most.Load() != 1 {
		t.Errorf("%d reports were charged, at most %d at once; want %d, one after the other", charged, most.Load(), flaps)
	}
	w.ends(invariant.Tally{Done: fresh, Dead: letters})
}

// A worker dies in the middle of an automatic replay: another goes on, nothing is lost, and nothing replayed twice.
func TestWorkerDiesWhileItReplays(t *testing.T) {
	t.Parallel()
	const letters = 40
	var source portal
	w := newWorld(t, source.script, onRecovery(5*time.Second), func(cfg *consumer.Config) {
		cfg.Queues.AckWait = 2 * time.Second
		cfg.ReplayRate = 20
	})
	first := w.work()
	keys := w.die(letters)
	source.up.Store(true)
	fresh := []report.Key{w.publish("FRESH-1", "https://portal.example/q3.pdf")}
	natstest.Eventually(t, "the replay to be in full swing", seldom(func() bool { return w.allReplays() >= letters/4 }))
	first.kill()
	if n := w.allReplays(); n >= letters {
		t.Fatalf("%d letters are replayed before the worker died, want less than %d", n, letters)
	}
	w.work()
	fresh = append(fresh, w.publish("FRESH-2", "https://portal.example/q3.pdf"))
	natstest.Eventually(t, "everything to land", seldom(func() bool { return w.commits() == letters+uint64(len(fresh)) }))
	w.drain()
	for _, key := range keys {
		w.wantReplays(key, 1, "https://portal.example answers again")
	}
	w.ends(invariant.Tally{Done: letters + len(fresh)})
}

// Two workers share the schedule's turns, of which each charges one letter of a source that is down for good. Turns that pass while no
// worker runs are not made up for, and letters of classes that are not named stay as they are.
func TestSchedule(t *testing.T) {
	t.Parallel()
	const letters, every = 20, 1500 * time.Millisecond
	w := newWorld(t, func(_ context.Context, e report.Event, _ int) (report.Result, error) {
		if e.SiteID == "POISON" {
			return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
		}
		return nil, report.Transient(report.CodeServerError, errors.New("503"))
	}, func(cfg *consumer.Config) {
		cfg.Queues.MaxAttempts = 1
	})
	first := w.work()
	keys := w.die(letters)
	poison := w.publish("POISON", "https://portal.example/q2.pdf")
	w.drain()
	first.stop()

	turns := w.watchTurns("replay")
	schedule := func(cfg *consumer.Config) { cfg.ReplayEvery = every }
	two := []*worker{w.work(schedule), w.work(schedule)}
	natstest.Eventually(t, "three turns", seldom(func() bool { return w.allReplays() == 3 }))
	for _, worker := range two {
		worker.stop()
	}
	before := w.allReplays()
	idle := time.NewTimer(3 * every)
	defer idle.Stop()
	natstest.Eventually(t, "three turns to pass", func() bool {
		select {
		case <-idle.C:
			return true
		default:
			return false
		}
	})
	if n := w.allReplays(); n != before {
		t.Errorf("%d letters were replayed with no worker, want none", n-before)
	}
	w.work(schedule)
	w.work(schedule)
	natstest.Eventually(t, "two more turns", seldom(func() bool { return w.allReplays() == before+2 }))
	w.stop()
	w.drain()

	var last time.Time
	taken := turns()
	for _, at := range taken {
		if apart := at.Sub(last); apart < every {
			t.Errorf("two turns are %v apart, want %v at least", apart, every)
		}
		last = at
	}
	replays := w.allReplays()
	if len(taken) < 5 || replays > len(taken) {
		t.Errorf("%d turns were taken and %d letters replayed, want five turns or more and at most one letter for each", len(taken), replays)
	}
	charged := 0
	for _, key := range keys {
		l := w.letter(key)
		w.wantReplays(key, l.Replays, "on schedule")
		if charged += l.Replays; l.Replays > 1 {
			t.Errorf("%s was replayed %d times within seconds, want at most once", key.Short(), l.Replays)
		}
	}
	if charged != replays {
		t.Errorf("%d letters were charged and %d replayed", charged, replays)
	}
	w.wantReplays(poison, 0, "")
	w.ends(invariant.Tally{Dead: letters + 1})
}

// watchTurns returns a function that tells when turns of a name were taken, by the server's clock.
func (w *world) watchTurns(name string) func() []time.Time {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), "reports_turns")
	w.must(err)
	watch, err := kv.Watch(w.Context(), name)
	w.must(err)
	w.Cleanup(func() { _ = watch.Stop() })
	return func() (taken []time.Time) {
		w.Helper()
		last, err := kv.Get(w.Context(), name)
		w.must(err)
		for e := range watch.Updates() {
			if e == nil {
				continue
			}
			if taken = append(taken, e.Created()); e.Revision() == last.Revision() {
				return taken
			}
		}
		return taken
	}
}

// What the clocks of the workers that buried the reports say does not count: a report that was replayed a moment ago rests, whether its
// letter says that it died days ago or will in years. One that was never replayed does not.
func TestClocksOfTheDead(t *testing.T) {
	t.Parallel()
	var source portal
	w := newWorld(t, source.script, func(cfg *consumer.Config) { cfg.Queues.MaxAttempts = 1 })
	first := w.work()
	keys := w.die(4)
	first.stop()
	for i, change := range []func(*dlq.Letter){
		func(l *dlq.Letter) { l.Replays, l.FailedAt = 1, l.FailedAt.Add(-72*time.Hour) },
		func(l *dlq.Letter) { l.Replays, l.FailedAt = 1, l.FailedAt.AddDate(70, 0, 0) },
		func(l *dlq.Letter) { l.FailedAt = l.FailedAt.Add(-72 * time.Hour) },
		func(l *dlq.Letter) { l.FailedAt = l.FailedAt.AddDate(70, 0, 0) },
	} {
		l := w.letter(keys[i])
		change(&l)
		_, err := w.letters.Put(t.Context(), l, l.Sequence)
		w.must(err)
	}
	source.up.Store(true)
	w.work(func(cfg *consumer.Config) { cfg.ReplayEvery = time.Second })
	w.lands(keys[2])
	w.lands(keys[3])
	later := w.allTurns(t, 2)
	w.drain()
	w.wantReplays(keys[0], 0, "")
	w.wantReplays(keys[1], 0, "")
	if later < 2 {
		t.Errorf("%d turns have passed, want two", later)
	}
	w.ends(invariant.Tally{Done: 2, Dead: 2})
}

// allTurns waits until the schedule's turn has been taken so many times more.
func (w *world) allTurns(t *testing.T, more uint64) uint64 {
	t.Helper()
	kv, err := w.js.KeyValue(t.Context(), "reports_turns")
	w.must(err)
	taken := map[uint64]bool{}
	natstest.Eventually(t, "more turns", func() bool {
		e, err := kv.Get(t.Context(), "replay")
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return false
		}
		w.must(err)
		taken[e.Revision()] = true
		return uint64(len(taken)) > more
	})
	return uint64(len(taken)) - 1
}
