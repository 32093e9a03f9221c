package reprocess

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

var ada = By{Actor: "ada@office", Reason: "the firm sent a corrected file"}

// office is one process at the desk.
type office struct {
	*Desk
	js     jetstream.JetStream
	finder *fate.Finder
}

func enter(t testing.TB, srv *natstest.Server) office {
	t.Helper()
	js := srv.JetStream(t)
	if err := consumer.Setup(t.Context(), js, consumer.DefaultConfig().Queues); err != nil {
		t.Fatal(err)
	}
	ledger, err := keyvalue.OpenLedger(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	queues, trail := stream.New(js, consumer.DefaultConfig().Queues), audit.New(js)
	letters := dlq.New(js, queues, ledger, trail, dlq.DefaultReplayMax)
	return office{New(queues, ledger, letters, trail), js, fate.New(queues, letters, ledger, trail)}
}

// settle writes the entry of a report that was worked.
func (o office) settle(t testing.TB, uri string, on uint64) keyvalue.Entry {
	t.Helper()
	e := keyvalue.Entry{
		State: keyvalue.Done, SiteID: "TWR 1", SourceURI: uri, Result: report.Result(`{"pages":"<1>"}`), Attempts: 2, Worker: "host/1",
		Commit: "REPORTS/1/2", Time: time.Now().UTC(), Revision: on,
	}
	var err error
	if e.Revision, err = o.ledger.Commit(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// acts lists the report's acts in the trail.
func (o office) acts(t testing.TB, key report.Key) (acts []audit.Event) {
	t.Helper()
	for e, err := range o.trail.Log(t.Context(), "*", key) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == audit.Reprocess {
			acts = append(acts, e)
		}
	}
	return acts
}

// Cut off after any of its steps, before or after a restart of the server, it is called again and goes on: one act, one copy.
func TestReprocessCutOff(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"audit", "reopened", "requeued", ""} {
		for _, restart := range []bool{false, true} {
			t.Run(step+map[bool]string{true: ", restart"}[restart], func(t *testing.T) {
				t.Parallel()
				srv := natstest.Start(t)
				o := enter(t, srv)
				old := o.settle(t, "a.pdf", 0)
				before, err := o.ledger.LookupLeader(t.Context(), "*", old.Key())
				if err != nil {
					t.Fatal(err)
				}
				o.step = func(s string) {
					if s == step {
						o.js.Conn().Close()
					}
				}
				_, err = o.Reprocess(t.Context(), "*", old.Key(), ada)
				if cut := step == "audit" || step == "reopened"; cut != errors.Is(err, nats.ErrConnectionClosed) {
					t.Fatalf("cut off after %q: %v", step, err)
				}
				if restart {
					srv.Restart(t)
				}
				o = enter(t, srv)
				if a, err := o.finder.Of(t.Context(), "*", old.Key()); err != nil || (a.Fate == fate.Waiting) != (step != "audit") {
					t.Errorf("in between: fate %s, %v", a.Fate, err)
				}
				again, err := o.Reprocess(t.Context(), report.NewToken("TWR 1"), old.Key(), ada)
				if err != nil {
					t.Fatal(err)
				}

				now, err := o.ledger.LookupLeader(t.Context(), "*", old.Key())
				if err != nil || now.State != keyvalue.Reopened || now.Replaces != old.Revision || string(now.Result) != `{"pages":"\u003c1\u003e"}` ||
					now.Actor != ada.Actor || now.Reason != ada.Reason || now.Time != old.Time || now.ReopenedAt.IsZero() {
					t.Errorf("the ledger: %+v, %v", now, err)
				}
				if again.Was != old.Revision || again.Revision != now.Revision || again.SourceURI != "a.pdf" || again.SiteID != "TWR 1" {
					t.Errorf("it says %+v", again)
				}
				m, err := o.queues.Copy(t.Context(), "*", old.Key())
				if err != nil || m.Carried.Reopened != now.Revision || m.Event.SourceURI != "a.pdf" || m.Carried.PublishedAt.IsZero() || m.Ref.Sequence != 1 {
					t.Errorf("the copy: %+v, %v", m, err)
				}
				acts := o.acts(t, old.Key())
				if len(acts) != 1 || acts[0].Revision != old.Revision || string(acts[0].Settled) != string(before.Raw) ||
					acts[0].Actor != ada.Actor || acts[0].Reason != ada.Reason || acts[0].SiteID != "TWR 1" {
					t.Errorf("the trail: %+v", acts)
				}
				invariant.Check(t, o.js, old.Key())
			})
		}
	}
}

// A report can be reopened each time it was settled, and each act is recorded.
func TestReprocessAgain(t *testing.T) {
	t.Parallel()
	o := enter(t, natstest.Start(t))
	e := o.settle(t, "a.pdf", 0)
	for n := range 3 {
		r, err := o.Reprocess(t.Context(), "*", e.Key(), ada)
		if err != nil || r.Was != e.Revision {
			t.Fatalf("time %d: %+v, %v", n+1, r, err)
		}
		m, err := o.queues.Copy(t.Context(), "*", e.Key())
		if err != nil || m.Carried.Reopened != r.Revision {
			t.Fatalf("time %d: %+v, %v", n+1, m.Carried, err)
		}
		if err := o.queues.Delete(t.Context(), m.Ref); err != nil { // a worker settles it
			t.Fatal(err)
		}
		e = o.settle(t, "a.pdf", r.Revision)
	}
	if acts := o.acts(t, e.Key()); len(acts) != 3 {
		t.Errorf("the trail: %+v", acts)
	}
	invariant.Check(t, o.js, e.Key())
}

// Another copy of the report is in the queue, such as an old replay: it will be worked on the reopened entry.
func TestReprocessBesideACopy(t *testing.T) {
	t.Parallel()
	o := enter(t, natstest.Start(t))
	e := o.settle(t, "a.pdf", 0)
	body := []byte(`{"site_id":"TWR 1","source_uri":"a.pdf"}`)
	if err := o.queues.Requeue(t.Context(), report.NewToken("TWR 1"), e.Key(), nil, body, stream.Carried{ReplayOf: 7}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Reprocess(t.Context(), "*", e.Key(), ada); err != nil {
		t.Fatal(err)
	}
	if m, err := o.queues.Copy(t.Context(), "*", e.Key()); err != nil || m.Carried.ReplayOf != 7 {
		t.Errorf("the copy: %+v, %v", m, err)
	}
	invariant.Check(t, o.js, e.Key())
}

// A worker has read the ledger before the report was reopened, and lets its copy go as a duplicate.
func TestReprocessBesideADuplicate(t *testing.T) {
	t.Parallel()
	for name, settled := range map[string]bool{"it leaves nothing": false, "it had been worked, and settles the report": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := enter(t, natstest.Start(t))
			e := o.settle(t, "a.pdf", 0)
			err := o.queues.Requeue(t.Context(), report.NewToken("TWR 1"), e.Key(), nil, []byte(`{"site_id":"TWR 1","source_uri":"a.pdf"}`), stream.Carried{ReplayOf: 7}, 0)
			if err != nil {
				t.Fatal(err)
			}
			worker, err := o.js.Consumer(t.Context(), stream.Requeued, stream.Consumer)
			if err != nil {
				t.Fatal(err)
			}
			taken, err := worker.Next()
			if err != nil {
				t.Fatal(err)
			}
			o.step = func(step string) {
				if step != "fenced" || taken == nil {
					return
				}
				if settled {
					reopened, err := o.ledger.LookupLeader(t.Context(), "*", e.Key())
					if err != nil {
						t.Error(err)
					}
					o.settle(t, "a.pdf", reopened.Revision)
				}
				if err := taken.DoubleAck(t.Context()); err != nil {
					t.Error(err)
				}
				taken = nil
			}
			r, err := o.Reprocess(t.Context(), "*", e.Key(), ada)
			if err != nil || taken != nil {
				t.Fatal(err, taken)
			}
			switch m, err := o.queues.Copy(t.Context(), "*", e.Key()); {
			case settled && !errors.Is(err, jsapi.ErrNotFound):
				t.Errorf("it is settled; the copy: %+v, %v", m, err)
			case !settled && (err != nil || m.Carried.Reopened != r.Revision):
				t.Errorf("the copy: %+v, %v", m, err)
			}
			invariant.Check(t, o.js, e.Key())
		})
	}
}

func TestReprocessRefuses(t *testing.T) {
	t.Parallel()
	o := enter(t, natstest.Start(t))
	e := o.settle(t, "a.pdf", 0)
	for _, by := range []By{{}, {Actor: "ada"}, {Reason: "why"}, {Actor: "ada", Reason: " \n"}} {
		if _, err := o.Reprocess(t.Context(), "*", e.Key(), by); err == nil {
			t.Errorf("%+v may", by)
		}
	}
	if _, err := o.Reprocess(t.Context(), "*", report.NewKey("TWR 1", "other.pdf"), ada); !errors.Is(err, ErrNotSettled) {
		t.Errorf("never seen: %v", err)
	}
	r, err := o.Reprocess(t.Context(), "*", e.Key(), ada)
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.queues.Copy(t.Context(), "*", e.Key())
	if err != nil {
		t.Fatal(err)
	}
	l := dlq.Letter{
		Key: m.Key, Site: m.Site, Class: report.ClassPoison, Code: report.CodeNoPages, Reason: "no pages", Hash: report.AuditHash(m.Key, "no pages"),
		Attempts: 1, Source: m.Identity, PublishedAt: m.PublishedAt, FailedAt: time.Now(), Reopened: r.Revision, Body: m.Body,
	}
	if l.Sequence, err = o.letters.Put(t.Context(), l, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.letters.RecordDeath(t.Context(), l), o.queues.Delete(t.Context(), m.Ref)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Reprocess(t.Context(), "*", e.Key(), ada); !errors.Is(err, ErrNotSettled) {
		t.Errorf("it has died since: %v", err)
	}
	if out, err := o.letters.Discard(t.Context(), l.Sequence, dlq.By{Actor: "ada", Reason: "hopeless"}); err != nil || out != dlq.Discarded {
		t.Fatal(out, err)
	}
	if _, err := o.Reprocess(t.Context(), "*", e.Key(), ada); !errors.Is(err, ErrNotSettled) {
		t.Errorf("it was given up since: %v", err)
	}
	if a, err := o.finder.Of(t.Context(), "*", e.Key()); err != nil || a.Fate != fate.Discarded {
		t.Errorf("fate %s, %v", a.Fate, err)
	}
	invariant.Check(t, o.js, e.Key())
}

// Nothing is reopened that could not be recorded.
func TestReprocessWithoutATrail(t *testing.T) {
	t.Parallel()
	o := enter(t, natstest.Start(t))
	e := o.settle(t, "a.pdf", 0)
	s, err := o.js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = 1
	if _, err := o.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Reprocess(t.Context(), "*", e.Key(), ada); err == nil {
		t.Error("it was reopened without a record")
	}
	if now, err := o.ledger.LookupLeader(t.Context(), "*", e.Key()); err != nil || now.State != keyvalue.Done || now.Revision != e.Revision {
		t.Errorf("the ledger: %+v, %v", now, err)
	}
	invariant.Check(t, o.js, e.Key())
}

// Two people reopen one report in the same moment: one does, and the other is told.
func TestReprocessRace(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	o, other := enter(t, srv), enter(t, srv)
	e := o.settle(t, "a.pdf", 0)
	o.step = func(s string) {
		if s == "audit" {
			if _, err := other.Reprocess(t.Context(), "*", e.Key(), By{Actor: "bob", Reason: "me too"}); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := o.Reprocess(t.Context(), "*", e.Key(), ada); !errors.Is(err, ErrChanged) {
		t.Errorf("the slower one is told %v", err)
	}
	if now, err := o.ledger.LookupLeader(t.Context(), "*", e.Key()); err != nil || now.Actor != "bob" {
		t.Errorf("the ledger: %+v, %v", now, err)
	}
	invariant.Check(t, o.js, e.Key())
}
