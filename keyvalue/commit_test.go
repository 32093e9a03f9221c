package keyvalue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// ledgers are the ways to commit many entries at once.
var ledgers = map[string]func(testing.TB) (*keyvalue.Ledger, jetstream.JetStream){
	"one by one": openLedger,
	"grouped":    openGrouped,
	"grouped, without atomic batches": func(t testing.TB) (*keyvalue.Ledger, jetstream.JetStream) {
		l, js := openGrouped(t)
		s, err := js.Stream(t.Context(), "KV_reports_ledger")
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.AllowAtomicPublish = false
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		return l, js
	},
}

func openGrouped(t testing.TB) (*keyvalue.Ledger, jetstream.JetStream) {
	t.Helper()
	js := natstest.StartSynced(t).JetStream(t)
	return openGroupedAt(t, js), js
}

func openGroupedAt(t testing.TB, js jetstream.JetStream) *keyvalue.Ledger {
	t.Helper()
	if err := keyvalue.Setup(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	l, err := keyvalue.OpenLedger(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Group(); err != nil {
		t.Fatal(err)
	}
	return l
}

// Of many commits at once each gets its own answer: the revision of its own entry, or a conflict.
func TestCommitsAtOnce(t *testing.T) {
	t.Parallel()
	for name, open := range ledgers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, js := open(t)
			const reports, rivals = 600, 3 // some of them in batches without a conflict, some not
			var all sync.WaitGroup
			won := make([][rivals]uint64, reports)
			for i := range reports {
				for r := range rivals {
					if r > 0 && i%2 == 0 {
						continue
					}
					all.Go(func() {
						e := entry("TWR-8842", fmt.Sprint(i, ".pdf"))
						e.Worker = fmt.Sprint("rival ", r)
						rev, err := l.Commit(t.Context(), e)
						if err != nil && !errors.Is(err, keyvalue.ErrConflict) {
							t.Error(err)
						}
						won[i][r] = rev
					})
				}
			}
			all.Wait()
			for i := range reports {
				winners := 0
				now, err := l.LookupLeader(t.Context(), "TWR-8842", report.NewKey("TWR-8842", fmt.Sprint(i, ".pdf")))
				if err != nil {
					t.Fatal(err)
				}
				for r, rev := range won[i] {
					if rev == 0 {
						continue
					}
					if winners++; now.Revision != rev || now.Worker != fmt.Sprint("rival ", r) {
						t.Errorf("rival %d was told revision %d, the entry is %d of %s", r, rev, now.Revision, now.Worker)
					}
				}
				if winners != 1 {
					t.Errorf("report %d was committed %d times", i, winners)
				}
			}
			if n, err := l.Len(t.Context()); err != nil || n != reports {
				t.Errorf("%d entries, %v", n, err)
			}
			js.Conn().Close()
			if _, err := l.Commit(t.Context(), entry("TWR-8842", "late.pdf")); !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("on a closed connection: %v", err)
			}
		})
	}
}

// A group whose server goes away answers every caller, and a repetition of each commit ends in one entry: a conflict is with the caller's own,
// also at the first try, if the server wrote the batch and went away before it said so.
func TestCommitsAcrossARestart(t *testing.T) {
	t.Parallel()
	srv := natstest.StartSynced(t)
	l := openGroupedAt(t, srv.JetStream(t))
	const reports = 2000
	var all sync.WaitGroup
	half := make(chan struct{}, reports)
	for i := range reports {
		all.Go(func() {
			e := entry("TWR-8842", fmt.Sprint(i, ".pdf"))
			for {
				if _, err := l.Commit(t.Context(), e); err == nil || errors.Is(err, keyvalue.ErrConflict) {
					half <- struct{}{}
					return
				}
			}
		})
	}
	for range reports / 10 {
		<-half
	}
	srv.Restart(t)
	all.Wait()
	if n, err := l.Len(t.Context()); err != nil || n != reports {
		t.Errorf("%d entries, %v", n, err)
	}
}

// Whoever answers a commit is read with care: a write is done only if the server says with which sequence.
func TestCommitAnswers(t *testing.T) {
	t.Parallel()
	for _, grouped := range []bool{false, true} {
		for answer, want := range map[string]error{
			"":                                       errAny,
			"{":                                      errAny,
			"null":                                   errAny,
			`{"stream":"KV_reports_ledger"}`:         errAny,
			`{"stream":"KV_reports_ledger","seq":}`:  errAny,
			`{"stream":"KV_reports_ledger","seq":7}`: nil,
			`{"stream":"KV_reports_ledger", "seq":7}`: nil,
			`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"KV_reports_ledger","seq":0}`: keyvalue.ErrConflict,
			`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"KV_reports_ledger","seq":0}`:    keyvalue.ErrConflict,
			`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"KV_reports_ledger","seq":9}`: errAny,
		} {
			t.Run(fmt.Sprint(grouped, answer), func(t *testing.T) {
				t.Parallel()
				js := natstest.Start(t).JetStream(t)
				if err := keyvalue.Setup(t.Context(), js, 1); err != nil {
					t.Fatal(err)
				}
				l, err := keyvalue.OpenLedger(t.Context(), js)
				if err != nil {
					t.Fatal(err)
				}
				if err := js.DeleteStream(t.Context(), "KV_reports_ledger"); err != nil {
					t.Fatal(err)
				}
				if grouped {
					if err := l.Group(); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := js.Conn().Subscribe("$KV.reports_ledger.>", func(m *nats.Msg) { _ = m.Respond([]byte(answer)) }); err != nil {
					t.Fatal(err)
				}
				rev, err := l.Commit(t.Context(), entry("TWR-8842", "a.pdf"))
				switch {
				case want == nil && (err != nil || rev != 7):
					t.Errorf("revision %d, %v", rev, err)
				case want == errAny && (err == nil || errors.Is(err, keyvalue.ErrConflict)), want == keyvalue.ErrConflict && !errors.Is(err, want):
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// A server that knows no batches looks at each message for itself, and answers the last: the others may be refused. No commit is believed
// without an answer of its own then.
func TestCommitsWithoutBatches(t *testing.T) {
	t.Parallel()
	l, js := openGrouped(t)
	if err := js.DeleteStream(t.Context(), keyvalue.LedgerStream); err != nil {
		t.Fatal(err)
	}
	var answered atomic.Int64
	if _, err := js.Conn().Subscribe("$KV.reports_ledger.>", func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		if m.Header.Get("Nats-Batch-Id") == "" {
			answered.Add(1)
		}
		_ = m.Respond([]byte(`{"stream":"KV_reports_ledger","seq":700}`))
	}); err != nil {
		t.Fatal(err)
	}
	const reports = 300
	var all sync.WaitGroup
	for i := range reports {
		all.Go(func() {
			if _, err := l.Commit(t.Context(), entry("TWR-8842", fmt.Sprint(i, ".pdf"))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := answered.Load(); n != reports {
		t.Errorf("%d of %d commits were answered", n, reports)
	}
}

var errAny = errors.New("any but a conflict")

func TestCommitWithNobodyThere(t *testing.T) {
	t.Parallel()
	l, js := openLedger(t)
	if err := js.DeleteStream(t.Context(), "KV_reports_ledger"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), entry("TWR-8842", "a.pdf")); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Commit(ctx, entry("TWR-8842", "a.pdf")); err == nil {
		t.Error("committed with a context that has ended")
	}
}
