package keyvalue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

func openLedger(t testing.TB) (*keyvalue.Ledger, jetstream.JetStream) {
	t.Helper()
	js := setUp(t)
	l, err := keyvalue.OpenLedger(context.Background(), js)
	if err != nil {
		t.Fatal(err)
	}
	return l, js
}

func entry(site, uri string) keyvalue.Entry {
	return keyvalue.Entry{
		State: keyvalue.Done, SiteID: site, SourceURI: uri, Result: report.Result(`{"pages":12}`), Attempts: 2,
		Worker: "host/4711", Commit: "REPORTS/1/2", Time: time.Unix(1_800_000_000, 5).UTC(),
	}
}

func commit(t testing.TB, l *keyvalue.Ledger, e keyvalue.Entry) keyvalue.Entry {
	t.Helper()
	rev, err := l.Commit(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	e.Revision = rev
	return e
}

// lookups are the two ways to read one entry.
func lookups(l *keyvalue.Ledger) map[string]func(context.Context, report.Token, report.Key) (keyvalue.Entry, error) {
	return map[string]func(context.Context, report.Token, report.Key) (keyvalue.Entry, error){
		"any replica": l.Lookup, "leader": l.LookupLeader,
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	l, js := openLedger(t)
	e := entry("TWR-8842", "a.pdf")
	site, key := report.NewToken(e.SiteID), e.Key()
	for how, lookup := range lookups(l) {
		if got, err := lookup(t.Context(), site, key); !errors.Is(err, keyvalue.ErrNotFound) {
			t.Errorf("%s, before the commit: got %+v, %v; want ErrNotFound", how, got, err)
		}
	}
	ahead := e
	ahead.Revision = 7
	if _, err := l.Commit(t.Context(), ahead); !errors.Is(err, keyvalue.ErrConflict) {
		t.Errorf("on a revision that is not there: got %v, want ErrConflict", err)
	}
	e = commit(t, l, e)
	raw, err := js.KeyValue(t.Context(), "reports_ledger")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := raw.Get(t.Context(), "TWR-8842."+string(key)); err != nil || got.Revision() != e.Revision {
		t.Errorf("the key TWR-8842.<key>: got %v, %v", got, err)
	}

	// A commit whose answer was lost is repeated: the entry itself says whose it is.
	other := e
	other.Commit, other.Worker, other.Revision = "REPORTS/1/3", "other/1", 0
	again := e
	again.Revision = 0
	for _, late := range []keyvalue.Entry{again, other, ahead} {
		if rev, err := l.Commit(t.Context(), late); rev != 0 || !errors.Is(err, keyvalue.ErrConflict) {
			t.Errorf("a later commit %s on revision %d: got %d, %v; want ErrConflict", late.Commit, late.Revision, rev, err)
		}
	}
	for how, lookup := range lookups(l) {
		if got, err := lookup(t.Context(), site, key); err != nil || !cmp.Equal(got, e, notRaw) {
			t.Errorf("%s: %v %s", how, err, cmp.Diff(e, got, notRaw))
		}
	}

	reopened := e
	reopened.State, reopened.Replaces = keyvalue.Reopened, e.Revision
	reopened = commit(t, l, reopened)
	if _, err := l.Commit(t.Context(), e); !errors.Is(err, keyvalue.ErrConflict) {
		t.Errorf("on the revision before: got %v, want ErrConflict", err)
	}
	if got, err := l.LookupLeader(t.Context(), "*", key); err != nil || !cmp.Equal(got, reopened, notRaw) {
		t.Errorf("reopened: %v %s", err, cmp.Diff(reopened, got, notRaw))
	}
	if n, err := l.Len(t.Context()); err != nil || n != 1 {
		t.Errorf("%d entries, %v; want 1", n, err)
	}
}

// notRaw: an entry that a test made has no stored form.
var notRaw = cmpopts.IgnoreFields(keyvalue.Entry{}, "Raw")

func TestCommitRace(t *testing.T) {
	t.Parallel()
	l, _ := openLedger(t)
	base := uint64(0)
	for round := range 5 { // the first creates, the others replace
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			won  []string
			next uint64
		)
		for i := range 16 {
			wg.Go(func() {
				e := entry("TWR-8842", "a.pdf")
				e.Commit, e.Revision = fmt.Sprint("REPORTS/1/", i), base
				rev, err := l.Commit(t.Context(), e)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won, next = append(won, e.Commit), rev
				} else if !errors.Is(err, keyvalue.ErrConflict) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		got, err := l.LookupLeader(t.Context(), "TWR-8842", entry("TWR-8842", "a.pdf").Key())
		if err != nil || !slices.Equal(won, []string{got.Commit}) || got.Revision != next {
			t.Fatalf("round %d: %v won, the entry is %s at %d, %v", round, won, got.Commit, got.Revision, err)
		}
		base = next
	}
}

func TestSettles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state              keyvalue.State
		revision, reopened uint64
		want               bool
	}{
		{"", 0, 0, false}, // there is no entry
		{keyvalue.Reopened, 5, 0, false},
		{keyvalue.Reopened, 5, 4, false},
		{keyvalue.Done, 5, 5, false},
		{keyvalue.Done, 5, 6, false},
		{keyvalue.Done, 5, 0, true},
		{keyvalue.Done, 5, 4, true},
	} {
		if got := (keyvalue.Entry{State: tt.state, Revision: tt.revision}).Settles(tt.reopened); got != tt.want {
			t.Errorf("%q at %d settles what was reopened at %d: %v", tt.state, tt.revision, tt.reopened, got)
		}
	}
}

func TestLedgerAll(t *testing.T) {
	t.Parallel()
	l, _ := openLedger(t)
	for e, err := range l.All(t.Context(), "*") {
		t.Errorf("an empty ledger: %+v, %v", e, err)
	}
	sites := []string{"TWR-8842", "NY 12.4", "São Paulo", "a=b_c", "TWR-8842", "NY"}
	var want []keyvalue.Entry
	for i, site := range sites {
		want = append(want, commit(t, l, entry(site, fmt.Sprint(i))))
	}
	rewritten := want[0]
	rewritten.State, rewritten.Replaces = keyvalue.Reopened, rewritten.Revision
	want = append(want[1:], commit(t, l, rewritten)) // it moves to the end
	for _, site := range append(sites, "", "nowhere") {
		token, some := report.Token("*"), want
		if site != "" {
			token = report.NewToken(site)
			some = slices.DeleteFunc(slices.Clone(want), func(e keyvalue.Entry) bool { return e.SiteID != site })
		}
		var got []keyvalue.Entry
		for e, err := range l.All(t.Context(), token) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if !slices.EqualFunc(got, some, func(a, b keyvalue.Entry) bool { return cmp.Equal(a, b, notRaw) }) {
			t.Errorf("of site %q: %s", site, cmp.Diff(some, got, notRaw))
		}
	}
}

// What is no entry is an error, neither a settled report nor an absent one.
func TestGarbledEntry(t *testing.T) {
	t.Parallel()
	l, js := openLedger(t)
	key := report.NewKey("a", "b")
	if _, err := js.Publish(t.Context(), "$KV.reports_ledger.a."+string(key), []byte("{")); err != nil {
		t.Fatal(err)
	}
	for how, lookup := range lookups(l) {
		if got, err := lookup(t.Context(), "a", key); err == nil || errors.Is(err, keyvalue.ErrNotFound) {
			t.Errorf("%s: got %+v, %v", how, got, err)
		}
	}
}

func TestLedgerServerGone(t *testing.T) {
	t.Parallel()
	l, js := openLedger(t)
	js.Conn().Close()
	e := entry("a", "b")
	if _, err := l.Commit(t.Context(), e); err == nil || errors.Is(err, keyvalue.ErrConflict) {
		t.Errorf("commit: got %v", err)
	}
	for how, lookup := range lookups(l) {
		if _, err := lookup(t.Context(), "a", e.Key()); err == nil || errors.Is(err, keyvalue.ErrNotFound) {
			t.Errorf("%s: got %v", how, err)
		}
	}
	n := 0
	for _, err := range l.All(t.Context(), "*") {
		if n++; err == nil {
			t.Error("an entry")
		}
	}
	if n != 1 {
		t.Errorf("reading all yields %d errors, want 1", n)
	}
}
