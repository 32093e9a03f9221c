package chaos

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// worked is a small plan that was worked without any fault, on a server of its own. Killers are left out: they would kill the test.
type worked struct {
	testing.TB
	js    jetstream.JetStream
	plan  *Plan
	runs  string
	acked map[report.Key]bool
}

func work(t *testing.T) *worked {
	t.Helper()
	return workBy(t, func(s *script) consumer.Handler { return s.handle })
}

// workBy has another handler do it.
func workBy(t *testing.T, handler func(*script) consumer.Handler) *worked {
	t.Helper()
	cfg := Default()
	cfg.Seed, cfg.Reports, cfg.Duration = 1, 60, time.Second
	w := &worked{TB: t, js: natstest.Start(t).JetStream(t), plan: NewPlan(cfg), runs: filepath.Join(t.TempDir(), "runs"), acked: map[report.Key]bool{}}
	w.plan.Reports = slices.DeleteFunc(w.plan.Reports, func(r Report) bool { return r.Fate == Killer })
	settings := cfg.consumer()
	settings.Worker = "worker"
	w.must(makeRuns(w.runs))
	w.must(consumer.Setup(t.Context(), w.js, settings.Queues))
	for _, r := range w.plan.Reports {
		_, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "reports.submitted.X", Data: r.Body})
		w.must(err)
		w.acked[r.Key] = true
	}
	c, err := consumer.Open(t.Context(), w.js, handler(&script{w.runs, "worker"}), settings, slog.New(slog.DiscardHandler))
	w.must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	natstest.Eventually(t, "the queues to be empty", func() bool {
		n, err := left(t.Context(), w.js)
		return err == nil && n == 0
	})
	stop()
	w.must(<-ended)
	return w
}

func (w *worked) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// found inspects and counts the findings.
func (w *worked) found() map[Wrong]int {
	w.Helper()
	r := &Result{Fates: map[Fate]int{}}
	w.must(inspect(w.Context(), w.js, w.plan, w.acked, w.runs, r))
	n := map[Wrong]int{}
	for _, f := range r.Findings {
		w.Log(f.What, f.Text)
		n[f.What]++
	}
	return n
}

// of returns a report of a fate.
func (w *worked) of(fate Fate) Report {
	w.Helper()
	for _, r := range w.plan.Reports {
		if r.Fate == fate {
			return r
		}
	}
	w.Fatalf("no report of fate %s", fate)
	return Report{}
}

func (w *worked) entry(r Report) (*keyvalue.Ledger, keyvalue.Entry) {
	w.Helper()
	ledger, err := keyvalue.OpenLedger(w.Context(), w.js)
	w.must(err)
	e, err := ledger.LookupLeader(w.Context(), "*", r.Key)
	w.must(err)
	return ledger, e
}

func (w *worked) letters() *dlq.Queue {
	ledger, err := keyvalue.OpenLedger(w.Context(), w.js)
	w.must(err)
	return dlq.New(w.js, stream.New(w.js, stream.Config{}), ledger, audit.New(w.js), dlq.DefaultReplayMax)
}

// What is done to the streams after all was worked, and what the inspection has to say of it.
func TestInspectFinds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(w *worked)
		want  map[Wrong]int
	}{
		"nothing": {func(*worked) {}, map[Wrong]int{}},
		"a report that vanished": {func(w *worked) {
			kv, err := w.js.KeyValue(w.Context(), "reports_ledger")
			w.must(err)
			r := w.of(Succeed)
			w.must(kv.Delete(w.Context(), string(report.NewToken(r.Site))+"."+string(r.Key)))
		}, map[Wrong]int{Lost: 1, Doubled: 1}}, // the ledger has taken more writes than there are entries
		"a letter that vanished": {func(w *worked) {
			l, err := w.letters().Current(w.Context(), "*", w.of(Poison).Key)
			w.must(err)
			s, err := w.js.Stream(w.Context(), dlq.Stream)
			w.must(err)
			w.must(s.DeleteMsg(w.Context(), l.Sequence))
		}, map[Wrong]int{Lost: 1}},
		"a second commit": {func(w *worked) {
			ledger, e := w.entry(w.of(Succeed))
			_, err := ledger.Commit(w.Context(), e)
			w.must(err)
		}, map[Wrong]int{Doubled: 2}},
		"a wrong result": {func(w *worked) {
			ledger, e := w.entry(w.of(Succeed))
			e.Result = report.Result(`{"answer":"42","worker":"worker","run":9}`)
			_, err := ledger.Commit(w.Context(), e)
			w.must(err)
		}, map[Wrong]int{Unexplained: 1, Doubled: 1}},
		"done and dead": {func(w *worked) {
			r := w.of(Succeed)
			reason := "no reason at all"
			_, err := w.letters().Put(w.Context(), dlq.Letter{
				Key: r.Key, Site: report.NewToken(r.Site), Class: report.ClassPoison, Code: report.CodePanic, Reason: reason,
				Hash: report.AuditHash(r.Key, reason), Source: stream.Ref{Stream: stream.Reports, Sequence: 1}, Body: r.Body,
			}, 0)
			w.must(err)
		}, map[Wrong]int{Doubled: 1, Unexplained: 1}}, // the trail knows nothing of that death
		"another reason": {func(w *worked) {
			q := w.letters()
			l, err := q.Current(w.Context(), "*", w.of(Never).Key)
			w.must(err)
			l.Reason = "all is well"
			_, err = q.Put(w.Context(), l, l.Sequence)
			w.must(err)
		}, map[Wrong]int{Unexplained: 2}}, // nor is it what the report was meant for
		"another class": {func(w *worked) {
			q := w.letters()
			l, err := q.Current(w.Context(), "*", w.of(Poison).Key)
			w.must(err)
			l.Class = report.ClassExhausted
			_, err = q.Put(w.Context(), l, l.Sequence)
			w.must(err)
		}, map[Wrong]int{Unexplained: 2}}, // nor is it the death that was recorded
		"a report that waits": {func(w *worked) {
			_, err := w.js.PublishMsg(w.Context(), &nats.Msg{Subject: "reports.submitted.X", Data: w.of(Succeed).Body})
			w.must(err)
		}, map[Wrong]int{Doubled: 1}},
		"a stranger": {func(w *worked) {
			_, err := w.js.PublishMsg(w.Context(), &nats.Msg{Subject: "reports.submitted.X", Data: []byte(`{"site_id":"X","source_uri":"Y"}`)})
			w.must(err)
		}, map[Wrong]int{Unexplained: 1}},
		"a false event": {func(w *worked) {
			r := w.of(Poison)
			w.must(audit.New(w.js).Append(w.Context(), audit.Event{Kind: audit.Death, Key: r.Key, SiteID: r.Site, Reason: "b", Hash: "a", Stream: "S", Sequence: 1}))
		}, map[Wrong]int{Unexplained: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := work(t)
			tt.spoil(w)
			if diff := cmp.Diff(tt.want, w.found()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// A reason that is not the report's own is found, though its letter and its death agree on it.
func TestInspectReads(t *testing.T) {
	t.Parallel()
	w := workBy(t, func(s *script) consumer.Handler {
		return func(ctx context.Context, e report.Event) (report.Result, error) {
			result, err := s.handle(ctx, e)
			if e.Metadata["fate"] == string(Poison) {
				err = report.Poison(report.CodeMalformedPDF, errors.New(unparseable("chaos://another.pdf")))
			}
			return result, err
		}
	})
	poison := 0
	for _, r := range w.plan.Reports {
		if r.Fate == Poison {
			poison++
		}
	}
	if n := w.found(); poison == 0 || n[Unexplained] != poison || len(n) != 1 {
		t.Errorf("%v for %d reports that died for another's reason", n, poison)
	}
}

// How many of the dead are put down to lost deliveries has a limit.
func TestLimits(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Reports = 3000 // two killers, about 180 poison and 120 that never succeed
	p := NewPlan(cfg)
	for name, tt := range map[string]struct {
		innocent, abandoned int
		lost                int // of 1,000 deliveries
		findings            int
	}{
		"as many as by chance":            {10, 22, 0, 0},
		"one more that was to succeed":    {11, 22, 0, 1},
		"one more that is abandoned":      {10, 23, 0, 1},
		"all that never succeed":          {0, 120, 0, 1},
		"many, and many deliveries lost":  {10, 80, 100, 0},
		"more, for as many that are lost": {10, 1000, 100, 1},
	} {
		r := &Result{Innocent: tt.innocent, Abandoned: tt.abandoned}
		if r.expect(p, tt.lost, 1000); len(r.Findings) != tt.findings {
			t.Errorf("%s: %v, want %d; let pass %d and %d", name, r.Findings, tt.findings, r.Most, r.AbandonedMost)
		}
	}
}

// A report that was never acknowledged may be missing.
func TestInspectForgivesWhatWasNotTaken(t *testing.T) {
	t.Parallel()
	w := work(t)
	r := newReport(1, 1000, Succeed, 1)
	w.plan.Reports = append(w.plan.Reports, r)
	if n := w.found(); len(n) != 0 {
		t.Errorf("%v for a report that no server has acknowledged", n)
	}
	w.acked[r.Key] = true
	if n := w.found(); n[Lost] != 1 {
		t.Errorf("%v for one that was acknowledged", n)
	}
}

func TestSettleNeedsSettings(t *testing.T) {
	t.Parallel()
	if _, err := settle(t.Context(), strings.NewReader("words\n"), &workerSettings{}, nil); err == nil {
		t.Error("no settings, and no error")
	}
}
