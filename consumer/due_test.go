package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// logged is a log that tests can read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// due lists the sites of which the log warned, in order.
func (l *logged) due() (sites []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if _, after, found := strings.Cut(line, "msg=dead_letter_due site="); found {
			site, _, _ := strings.Cut(after, " ")
			sites = append(sites, site)
		}
	}
	return sites
}

func TestDueWarning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		what   string
		within time.Duration
		due    time.Time
		want   int
	}{
		{"no deadline", time.Hour, time.Time{}, 0},
		{"switched off", 0, now.Add(-time.Hour), 0},
		{"far away", time.Hour, now.Add(time.Hour + 1), 0},
		{"just within", time.Hour, now.Add(time.Hour), 1},
		{"now", time.Hour, now, 1},
		{"overdue", time.Hour, now.Add(-1000 * time.Hour), 1},
	} {
		log := &logged{}
		c := &Consumer{cfg: Config{DueWarn: tt.within}, log: slog.New(slog.NewTextHandler(log, nil))}
		l := dlq.Letter{Sequence: 1, Site: "A", Due: tt.due, Reason: "\x1b[31m" + strings.Repeat("x", 9999)}
		for range 3 {
			c.due.warn(c, l, now)
		}
		if got := len(log.due()); got != tt.want || log.b.Len() > 2000 {
			t.Errorf("%s: warned %d times, want %d; %d bytes", tt.what, got, tt.want, log.b.Len())
		}
	}
}

// What is remembered of letters is bounded, and letters that are gone are forgotten.
func TestDueWarningsForget(t *testing.T) {
	t.Parallel()
	var w dueWarnings
	for n := range uint64(mostDue) {
		if !w.first(n) {
			t.Fatalf("letter %d is not new", n)
		}
	}
	if w.first(mostDue) || len(w.said) != mostDue {
		t.Errorf("%d letters are remembered", len(w.said))
	}
	w.forget() // all have been met
	if w.first(7) {
		t.Error("a letter that the sweep has met is forgotten")
	}
	w.forget() // only letter 7 has
	if len(w.said) != 1 || w.first(7) || !w.first(8) {
		t.Errorf("%d letters are remembered: %v", len(w.said), w.said)
	}
}

// Every process warns once of each dead letter that is due soon: the one that buries it when it dies, others when they meet it.
func TestDeadLettersThatAreDueSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {poison}, "B": {poison}, "C": {poison}})
	for site, due := range map[string]time.Duration{"A": time.Hour, "B": -time.Hour, "C": 48 * time.Hour} {
		w.publishRaw(site, nil, fmt.Appendf(nil, `{"site_id":%q,"source_uri":"a.pdf","due":%q}`, site, time.Now().Add(due).Format(time.RFC3339)))
	}
	first, second := &logged{}, &logged{}
	with := func(l *logged) func(*worker) {
		return func(k *worker) { k.log = slog.New(slog.NewTextHandler(l, nil)) }
	}
	k := w.start(with(first))
	natstest.Eventually(t, "warnings of A and B", func() bool { return len(first.due()) == 2 })
	w.awaitEmpty()
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
	w.publishRaw("D", nil, fmt.Appendf(nil, `{"site_id":"D","source_uri":"a.pdf","due":%q}`, time.Now().Format(time.RFC3339)))
	w.exhaust(stream.Reports)
	k = w.start(with(second))
	natstest.Eventually(t, "warnings of A, B and the orphan", func() bool { return len(second.due()) == 3 })
	w.check(invariant.Tally{Dead: 4})
	for range 3 { // further rounds say nothing more
		if next, err := k.closeLanded(context.Background(), 1); next != 1 || err != nil {
			t.Errorf("the round ended before letter %d, %v", next, err)
		}
	}
	if a, b := len(first.due()), len(second.due()); a != 2 || b != 3 {
		t.Errorf("%d and %d warnings: %v %v", a, b, first.due(), second.due())
	}
}

// Somebody has written something strange into the ledger about one dead report. The letters after it are looked at all the same.
func TestSweepBesideAnUnreadableEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {poison}, "B": {poison}})
	w.publish("A")
	k := w.start()
	w.await("A", Buried)
	w.publish("B")
	w.await("B", Buried)
	w.awaitEmpty()
	kv, err := w.js.KeyValue(t.Context(), "reports_ledger")
	if err != nil {
		t.Fatal(err)
	}
	name := func(site string) string { return site + "." + string(report.NewKey(site, uri(site))) }
	if _, err := kv.Put(t.Context(), name("A"), []byte("?")); err != nil {
		t.Fatal(err)
	}
	landed := keyvalue.Entry{State: keyvalue.Done, SiteID: "B", SourceURI: uri("B"), Time: time.Now()}
	if _, err := w.ledger().Commit(t.Context(), landed); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the letter of B to be closed", func() bool {
		_, err := w.letters().Current(t.Context(), "B", report.NewKey("B", uri("B")))
		return errors.Is(err, dlq.ErrNotFound)
	})
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), name("A")); err != nil {
		t.Fatal(err)
	}
	w.check(invariant.Tally{Done: 1, Dead: 1})
}
