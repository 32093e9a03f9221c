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

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
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

// portalTurn is the turn of the source of those reports.
const portalTurn = "upstream.https=3A=2F=2Fportal=2Eexample"

// turn is the turn of a name as it stands.
func (w *world) turn(name string) keyvalue.Turn {
	w.Helper()
	turns, err := keyvalue.OpenTurns(w.Context(), w.js)
	w.must(err)
	turn, err := turns.Last(w.Context(), name)
	w.must(err)
	return turn
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
	sources, err := source.Open(source.Config{AllowHosts: []string{"127.0.0.1"}, TempDir: t.TempDir(), HostConcurrency: 16},
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	w := newWorld(t, func(ctx context.Context, e report.Event, _ int) (report.Result, error) {
		f, err := sources.Fetch(ctx, e.SourceURI)
		if err != nil {
			return nil, err
		}
		return report.Result(fmt.Sprintf(`{"bytes":%d}`, f.Size)), f.Close()
	}, onRecovery(time.Minute))
	w.must(err)
	t.Cleanup(func() { _ = sources.Close() })
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
	var cfg *consumer.Config
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SiteID[0] == 'F' {
			return nil, nil
		}
		if run > 2 {
			most.Store(max(most.Load(), out.Add(1)))
			defer out.Add(-1)
		}
		return nil, report.Transient(report.CodeServerError, errors.New("503"))
	}, onRecovery(20*time.Second), func(c *consumer.Config) { cfg = c })
	w.work()
	keys := w.die(letters)
	fresh := 0
	var last keyvalue.Turn // as the canary before has left it
	var lastOver time.Time
	for n := range flaps {
		natstest.Eventually(t, "the next canary", seldom(func() bool {
			w.publish(fmt.Sprint("FRESH-", fresh), "https://portal.example/q3.pdf") // it answers again
			fresh++
			return w.allReplays() > n
		}))
		if after := time.Since(lastOver); after < last.Pause {
			t.Errorf("canary %d came %v after the one before had died, want %v at least", n+1, after, last.Pause)
		}
		natstest.Eventually(t, "the canary to die", seldom(func() bool {
			now := time.Now()
			last = w.turn(portalTurn)
			lastOver = now.Add(-last.Age)
			return last.Over
		}))
		if want := cfg.ReplayEvery / 10 << (n + 1); last.Pause != want { // twice what a turn is held for, then twice as long each time
			t.Errorf("after canary %d the next must wait %v, want %v", n+1, last.Pause, want)
		}
	}
	w.drain()
	w.stop()
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

// While a canary is out, for however long, the upstream's other letters wait, although other workers see it answer, too.
func TestOthersWaitForTheCanary(t *testing.T) {
	t.Parallel()
	const letters = 10
	known := make(chan struct{}) // closed when it is to be known how the canary fares
	var source portal
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		if e.SiteID[0] != 'F' && run > 2 {
			select {
			case <-known:
			case <-ctx.Done():
			}
		}
		return source.script(ctx, e, run)
	}, onRecovery(40*time.Second))
	w.work()
	w.work()
	w.work()
	keys := w.die(letters)
	source.up.Store(true)
	fresh := 0
	answer := func() {
		w.lands(w.publish(fmt.Sprint("FRESH-", fresh), "https://portal.example/q3.pdf"))
		fresh++
	}
	natstest.Eventually(t, "the canary", seldom(func() bool { answer(); return w.allReplays() > 0 }))
	began := w.turn(portalTurn).Revision
	natstest.Eventually(t, "the turn to be renewed, for longer than it is held", seldom(func() bool {
		answer()
		return w.turn(portalTurn).Revision >= began+5
	}))
	if n := w.allReplays(); n != 1 {
		t.Errorf("%d letters are replayed while it is not known how the canary fares, want 1", n)
	}
	close(known)
	for _, key := range keys {
		w.lands(key)
	}
	w.drain()
	for _, key := range keys {
		w.wantReplays(key, 1, "https://portal.example answers again")
		w.wantRuns(key, 3)
	}
	w.ends(invariant.Tally{Done: letters + fresh})
}

// A worker dies in the middle of an automatic replay: another goes on, nothing is lost, and nothing replayed twice.
func TestWorkerDiesWhileItReplays(t *testing.T) {
	t.Parallel()
	const letters = 120
	var source portal
	w := newWorld(t, source.script, onRecovery(5*time.Second), func(cfg *consumer.Config) {
		cfg.Queues.AckWait = 5 * time.Second
		cfg.ReplayRate = 20
	})
	first := w.work()
	keys := w.die(letters)
	source.up.Store(true)
	fresh := []report.Key{w.publish("FRESH-1", "https://portal.example/q3.pdf")}
	natstest.Eventually(t, "the replay to be in full swing", seldom(func() bool { return w.allReplays() >= 10 }))
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
