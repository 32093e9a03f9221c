package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// dying are the messages that can lie in a queue when their letter is put.
var dying = map[string]func(testing.TB, yard) stream.Message{
	"as published": func(t testing.TB, y yard) stream.Message { return y.publish(t, "a.pdf") },
	"handed back": func(t testing.TB, y yard) stream.Message {
		m := y.publish(t, "a.pdf")
		return y.handBack(t, m)
	},
	"replayed": func(t testing.TB, y yard) stream.Message {
		y.replay(t, y.die(t, "a.pdf"), Replayed)
		return y.queued(t)[0]
	},
	"replayed and handed back twice": func(t testing.TB, y yard) stream.Message {
		y.replay(t, y.die(t, "a.pdf"), Replayed)
		return y.handBack(t, y.handBack(t, y.queued(t)[0]))
	},
}

// handBack puts a copy in place of a message, as a worker does that is being stopped.
func (y yard) handBack(t testing.TB, m stream.Message) stream.Message {
	t.Helper()
	c := m.Carried
	c.PublishedAt, c.StandsFor, c.Attempts = m.PublishedAt, m.Identity, 1
	var own uint64
	if m.Ref.Stream == stream.Requeued {
		own = m.Ref.Sequence
	}
	err := y.queues.Requeue(context.Background(), m.Site, m.Key, m.Header, m.Body, c, own)
	if err := errors.Join(err, y.queues.Delete(context.Background(), m.Ref)); err != nil {
		t.Fatal(err)
	}
	copied, err := y.queues.Copy(context.Background(), m.Site, m.Key)
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// A worker died between putting the letter and letting the message go. Whoever acts on the letter finishes the burial
// first: the death is recorded, and the report does not run beside the act.
func TestBurialCutShort(t *testing.T) {
	t.Parallel()
	for what, die := range dying {
		for _, recorded := range []bool{false, true} {
			for _, kind := range []audit.Kind{audit.Replay, audit.Discard} {
				t.Run(fmt.Sprintf("%s, recorded %v, %s", what, recorded, kind), func(t *testing.T) {
					t.Parallel()
					y, _ := newYard(t)
					m := die(t, y)
					l := y.put(t, letterOf(m, "the reason"))
					if recorded {
						if err := y.RecordDeath(t.Context(), l); err != nil {
							t.Fatal(err)
						}
					}
					if kind == audit.Replay {
						y.replay(t, l, Replayed)
					} else if got, err := y.Discard(t.Context(), l.Sequence, operator); got != Discarded || err != nil {
						t.Errorf("discard: got %q, %v", got, err)
					}
					y.gone(t)
					queued := y.queued(t)
					if kind == audit.Discard && len(queued) != 0 || kind == audit.Replay && (len(queued) != 1 || queued[0].Carried.ReplayOf != l.Sequence) {
						t.Errorf("queued: %+v", queued)
					}
					want := []audit.Kind{audit.Death, kind}
					if m.Carried.Replays > 0 {
						want = append([]audit.Kind{audit.Death, audit.Replay}, want...)
					}
					events := y.trailOf(t, l, want...)
					if death := events[len(events)-2]; !cmp.Equal(death, Death(l)) {
						t.Errorf("the death: %s", cmp.Diff(Death(l), death))
					}
				})
			}
		}
	}
}

// A message that only lies where the dead one lay is another's, and stays.
func TestBurialOfAnother(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(l *Letter){
		"another report at that sequence": func(l *Letter) {
			l.Key, l.Body = report.NewKey("TWR 1", "b.pdf"), []byte(`{"site_id":"TWR 1","source_uri":"b.pdf"}`)
			l.Hash = report.AuditHash(l.Key, l.Reason)
		},
		"the same report at another time":     func(l *Letter) { l.PublishedAt = l.PublishedAt.Add(time.Nanosecond) },
		"the same report at another sequence": func(l *Letter) { l.Source.Sequence++ },
		"the same report in another stream":   func(l *Letter) { l.Source.Stream = stream.Requeued },
		"the letter names no stream":          func(l *Letter) { l.Source.Stream = "" },
		"the letter names no sequence":        func(l *Letter) { l.Source.Sequence = 0 },
		"the letter names a bucket":           func(l *Letter) { l.Source.Stream = "KV_reports_ledger" },
		"the letter names itself":             func(l *Letter) { l.Source = stream.Ref{Stream: Stream, Sequence: 1} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			y, _ := newYard(t)
			m := y.publish(t, "a.pdf")
			l := letterOf(m, "the reason")
			change(&l)
			l = y.put(t, l)
			if got, err := y.Discard(t.Context(), l.Sequence, operator); got != Discarded || err != nil {
				t.Errorf("discard: got %q, %v", got, err)
			}
			y.gone(t)
			if queued := y.queued(t); len(queued) != 1 || queued[0].Ref != m.Ref {
				t.Errorf("queued: %+v", queued)
			}
		})
	}
}

// Without the trail nothing is done: the letter and the message stay.
func TestActWithoutTrail(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	s, err := y.js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	limit := func(messages int64) {
		cfg.MaxMsgs = messages
		if _, err := y.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	recorded := y.die(t, "a.pdf")
	m := y.publish(t, "b.pdf")
	l := y.put(t, letterOf(m, "the reason"))
	limit(1)
	for what, act := range map[string]act{"replay": y.Replay, "discard": y.Discard, "repair": repairTo("c.pdf")(y.Queue)} {
		for _, l := range []Letter{recorded, l} {
			if got, err := act(t.Context(), l.Sequence, operator); got != "" || err == nil {
				t.Errorf("%s: got %q, %v", what, got, err)
			}
			if _, err := y.At(t.Context(), l.Sequence); err != nil {
				t.Errorf("%s: the letter: %v", what, err)
			}
		}
	}
	if queued := y.queued(t); len(queued) != 1 || queued[0].Ref != m.Ref {
		t.Errorf("queued: %+v", queued)
	}
	limit(-1)
	y.replay(t, recorded, Replayed)
	y.replay(t, l, Replayed)
	y.gone(t)
	y.trailOf(t, l, audit.Death, audit.Replay)
}

// A death is recorded once per verdict, also outside the trail's duplicate window.
func TestRecordDeath(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	pass := shortWindow(t, y)
	record := func(l Letter) {
		t.Helper()
		for range 2 {
			pass()
			if err := y.RecordDeath(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := y.publish(t, "a.pdf")
	l := letterOf(m, "workers vanished with it")
	l.Class = report.ClassAbandoned
	l = y.put(t, l)
	record(l)
	y.trailOf(t, l, audit.Death)

	// A real verdict on the same message corrects it, whatever a worker that has lost the report recorded between.
	late := audit.Event{Time: time.Now().UTC(), Kind: audit.AttemptFailed, Key: l.Key, SiteID: l.SiteID(), Stream: l.Source.Stream, Sequence: l.Source.Sequence, Delivery: 3}
	if err := y.trail.Append(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	verdict := y.put(t, letterOf(m, "no pages"))
	record(verdict)
	events := y.trailOf(t, l, audit.Death, audit.AttemptFailed, audit.Death)
	if events[0].Corrects || !events[2].Corrects || events[2].Reason != "no pages" {
		t.Errorf("recorded %+v", events)
	}

	// An act on the letter says that its death had been recorded.
	if got, err := y.Discard(t.Context(), verdict.Sequence, operator); got != Discarded || err != nil {
		t.Fatal(got, err)
	}
	record(verdict)
	y.trailOf(t, l, audit.Death, audit.AttemptFailed, audit.Death, audit.Discard)

	// The report dies again: an act on another letter says nothing.
	m.Identity = stream.Ref{Stream: stream.Reports, Sequence: 99}
	again := y.put(t, letterOf(m, "no pages"))
	record(again)
	y.trailOf(t, l, audit.Death, audit.AttemptFailed, audit.Death, audit.Discard, audit.Death)

	// A worker that was away for so long may come with the death of the first letter, and later with that of the second.
	record(verdict)
	if got, err := y.Discard(t.Context(), again.Sequence, operator); got != Discarded || err != nil {
		t.Fatal(got, err)
	}
	record(verdict)
	record(again)
	y.trailOf(t, l, audit.Death, audit.AttemptFailed, audit.Death, audit.Discard, audit.Death, audit.Discard)
	if _, err := y.trail.Discarded(t.Context(), l.Site, l.Key); err != nil {
		t.Error(err)
	}
	s, err := y.js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("reports.audit."+string(l.Site)+"."+string(l.Key)))
	if err != nil || info.State.Subjects["reports.audit."+string(l.Site)+"."+string(l.Key)] != 6 {
		t.Errorf("stored %v, %v; want 6 events", info.State.Subjects, err)
	}
}

// shortWindow makes the trail's duplicate window short, and returns a function that waits until what is written now is outside.
func shortWindow(t testing.TB, y yard) (pass func()) {
	t.Helper()
	s, err := y.js.Stream(context.Background(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	if _, err := y.js.UpdateStream(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	n := 0
	return func() {
		t.Helper()
		n++
		probe := func() bool {
			ack, err := y.js.Publish(context.Background(), "reports.audit.probe", nil, jetstream.WithMsgID(fmt.Sprint("probe ", n)))
			if err != nil {
				t.Fatal(err)
			}
			return !ack.Duplicate
		}
		if !probe() {
			t.Fatal("a new name is a duplicate")
		}
		natstest.Eventually(t, "the duplicate window to pass", probe)
	}
}

// A letter is not as Guyline has written it. Nobody acts on it, in a bulk replay the others are not concerned, and nothing of it
// gets into the trail, which could never be verified or signed again.
func TestActOnAForgedLetter(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*nats.Msg){
		"another reason and its hash": func(m *nats.Msg) {
			m.Header.Set(report.HeaderReason, "nobody's fault")
			m.Header.Set(report.HeaderAuditHash, report.AuditHash(report.NewKey("TWR 1", "a.pdf"), "nobody's fault"))
		},
		"another reason":           func(m *nats.Msg) { m.Header.Set(report.HeaderReason, "nobody's fault") },
		"another report's payload": func(m *nats.Msg) { m.Data = []byte(`{"site_id":"TWR 1","source_uri":"b.pdf"}`) },
		"another site's name":      func(m *nats.Msg) { m.Subject = subject("another", report.NewKey("TWR 1", "a.pdf")) },
		"no headers":               func(m *nats.Msg) { m.Header = nil },
		"no letter":                func(m *nats.Msg) { m.Subject, m.Header, m.Data = "reports.dlq.x.y", nil, []byte("hello") },
	} {
		for _, died := range []bool{true, false} {
			if !died && what == "another reason and its hash" {
				continue // nothing is there that contradicts it
			}
			t.Run(fmt.Sprintf("%s, died %v", what, died), func(t *testing.T) {
				t.Parallel()
				y, _ := newYard(t)
				m := y.publish(t, "a.pdf")
				l := letterOf(m, "unparseable")
				if died {
					l = y.bury(t, m, l.Reason)
				} else if err := y.queues.Delete(t.Context(), m.Ref); err != nil {
					t.Fatal(err)
				}
				y.forge(t, l, change)
				raw, err := jsapi.Last(t.Context(), y.js, Stream, "reports.dlq.>")
				if err != nil {
					t.Fatal(err)
				}
				other := y.die(t, "other.pdf")
				for what, act := range map[string]func() error{
					"replay":  func() error { _, err := y.Replay(t.Context(), raw.Sequence, operator); return err },
					"discard": func() error { _, err := y.Discard(t.Context(), raw.Sequence, operator); return err },
					"repair":  func() error { _, _, err := y.Repair(t.Context(), raw.Sequence, "b.pdf", operator); return err },
				} {
					if err := act(); !errors.Is(err, ErrForged) {
						t.Errorf("%s: %v, want ErrForged", what, err)
					}
				}
				if queued := y.queued(t); len(queued) != 0 {
					t.Errorf("queued: %+v", queued)
				}
				tally, err := y.ReplayAll(t.Context(), []Candidate{{Sequence: raw.Sequence}, {Sequence: other.Sequence}}, Bulk{By: operator})
				if err != nil || tally.ByOutcome[Unreadable] != 1 || tally.ByOutcome[Replayed] != 1 {
					t.Errorf("replay of both: %+v, %v", tally, err)
				}
				if _, err := y.At(t.Context(), raw.Sequence); err != nil {
					t.Errorf("the letter: %v", err)
				}
				var left, want []audit.Kind
				if died {
					want = []audit.Kind{audit.Death}
				}
				for e, err := range y.trail.All(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if e.Key != other.Key {
						left = append(left, e.Kind)
					}
				}
				if !slices.Equal(left, want) {
					t.Errorf("the trail has %v, want %v", left, want)
				}
			})
		}
	}
}
