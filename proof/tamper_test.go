package proof

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

const (
	otherTrail = "checkpoint 2: it is of the trail that was made at "
	letterOf2  = "letter 2 ("
)

// Whatever is done to the trail is named, with the key and without it, if it was signed before.
func TestTamperedTrail(t *testing.T) {
	t.Parallel()
	reason := func(e *audit.Event) { e.Reason = strings.Replace(e.Reason, "structure", "strukture", 1) }
	for name, tt := range map[string]struct {
		change func([]*nats.Msg) []*nats.Msg
		want   []string
	}{
		"one byte of a reason": {
			func(all []*nats.Msg) []*nats.Msg { all[1] = edited(all[1], reason); return all },
			[]string{"event 2 (", "event 2: the event was edited"},
		},
		"a reason with a new hash": {
			func(all []*nats.Msg) []*nats.Msg {
				all[1] = edited(all[1], func(e *audit.Event) { reason(e); e.Hash = report.AuditHash(e.Key, e.Reason) })
				return all
			},
			[]string{"event 2: the event was edited", letterOf2},
		},
		"a worker's name": {
			func(all []*nats.Msg) []*nats.Msg {
				all[5] = edited(all[5], func(e *audit.Event) { e.Worker = "another" })
				return all
			},
			[]string{"event 6: the event was edited"},
		},
		"an event removed": {
			func(all []*nats.Msg) []*nats.Msg { return slices.Delete(all, 1, 2) },
			[]string{"event 2: the event was removed", letterOf2},
		},
		"two removed in different places": {
			func(all []*nats.Msg) []*nats.Msg { return slices.Delete(slices.Delete(all, 4, 5), 1, 2) },
			[]string{"event 2: the event was removed", letterOf2, "event 5: the event was removed", "letter 5 ("},
		},
		"a pair swapped": {
			func(all []*nats.Msg) []*nats.Msg { all[1], all[2] = all[2], all[1]; return all },
			[]string{"event 2: the event was moved: it now comes after event 3"},
		},
		"the tail cut off": {
			func(all []*nats.Msg) []*nats.Msg { return all[:4] },
			[]string{"event 5: the events 5 to 6 were cut off", "letter 5 (", "letter 6 ("},
		},
		"an event put in": {
			func(all []*nats.Msg) []*nats.Msg {
				more := edited(all[0], func(e *audit.Event) { e.Kind = audit.Discard; e.Actor = "nobody" })
				more.Header = nats.Header{}
				return slices.Insert(all, 2, more)
			},
			[]string{"event 3: the event was put in"},
		},
		"everything": {
			func(all []*nats.Msg) []*nats.Msg { return nil },
			[]string{"event 1: the events 1 to 6 were cut off", "letter 1 (", "letter 2 (", "letter 3 (", "letter 4 (", "letter 5 (", "letter 6 ("},
		},
		"nothing but the stream": {func(all []*nats.Msg) []*nats.Msg { return all }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, signed := busy(t)
			w.sound(1)
			w.rebuild(audit.Stream, tt.change)
			seen := w.verify(w.public, signed.Note)
			w.finds(seen, append([]string{otherTrail, "checkpoint: the given file: it is of the trail that was made at "}, tt.want...)...)
			found := seen.Findings[slices.IndexFunc(seen.Findings, func(f Finding) bool { return f.What == InCheckpoints })].Problem
			if compared := strings.Contains(found, "first 6 events are not") || strings.Contains(found, "cut off"); compared != (tt.want != nil) {
				t.Errorf("the root: %s", found)
			}
			w.finds(w.verify(nil, nil), append([]string{otherTrail}, tt.want...)...)
			before := len(w.messages(Stream))
			if _, _, err := w.Sign(t.Context(), w.key, nil, nil, nil, 0); !errors.Is(err, ErrFindings) {
				t.Errorf("sign: %v, want ErrFindings", err)
			}
			if after := len(w.messages(Stream)); after != before {
				t.Errorf("what was refused has left %d messages", after-before)
			}
		})
	}
}

// Without the hashes of the events only the range between two checkpoints can be named.
func TestTamperedWithoutLeaves(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	w.die("s3://reports/later.pdf")
	w.sign()
	w.rebuild(Stream, func(all []*nats.Msg) []*nats.Msg {
		return slices.DeleteFunc(all, func(m *nats.Msg) bool { return m.Subject == leavesSubject })
	})
	w.sound(2)
	w.rebuild(audit.Stream, func(all []*nats.Msg) []*nats.Msg {
		all[6] = edited(all[6], func(e *audit.Event) { e.Worker = "another" })
		return all
	})
	w.finds(w.verify(w.public, nil), "checkpoint 1: ", "checkpoint 2: ", "event 7: in the events 7 to 7 something was edited")
	w.rebuild(audit.Stream, func(all []*nats.Msg) []*nats.Msg { return all[:6] })
	w.finds(w.verify(w.public, nil), "checkpoint 1: ", "checkpoint 2: ", "event 7: the events 7 to 7 are cut off", "letter 7 (")
}

// A message that was deleted leaves a gap, which names it before anything was signed.
func TestGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deletable(audit.Stream)
	for _, uri := range []string{"1", "2", "3", "4", "5", "6"} {
		w.die(uri)
	}
	w.sign()
	w.sound(1)
	w.delete(audit.Stream, 2, 3, 6)
	w.finds(w.verify(w.public, nil), "event 2: the events 2 to 3 are missing", "event 6: the event is missing", "checkpoint 2: the trail is cut off: it has 3 events, and 6 were signed",
		"event 2: the events 2 to 3 were removed", "event 6: the event was cut off", "letter 2 (", "letter 3 (", "letter 6 (")
}

// A trail that was rebuilt and signed with another key: the file that was kept elsewhere and the key tell.
func TestRebuiltWithAnotherKey(t *testing.T) {
	t.Parallel()
	w, signed := busy(t)
	w.rebuild(audit.Stream, func(all []*nats.Msg) []*nats.Msg { return slices.Delete(all, 1, 2) })
	w.rebuild(Stream, func([]*nats.Msg) []*nats.Msg { return nil })
	letter, err := w.letters.Find(t.Context(), string(report.NewKey(site, "s3://reports/dead2.pdf")))
	w.must(err)
	w.delete("REPORTS_DLQ", letter.Sequence)
	forger, forgers := newKey(t, "office")
	forged, seen, err := w.Sign(t.Context(), forger, nil, nil, nil, 0)
	if err != nil {
		t.Fatal(err, seen.Findings)
	}
	if seen := w.verify(forgers, forged.Note); !seen.Sound() { // to whom the forger's key is the right one
		t.Errorf("findings %v", seen.Findings)
	}
	w.finds(w.verify(w.public, nil), "checkpoint 2: it is not signed by a given key")
	// The hashes of the events are gone too, so the file alone cannot tell which one it was.
	w.finds(w.verify(w.public, signed.Note), "checkpoint 2: it is not signed by a given key", "checkpoint: the given file: it is of the trail",
		"event 1: in the events 1 to 5 something was edited, removed or put in", "event 6: the events 6 to 6 are cut off")
	if _, _, err := w.Sign(t.Context(), w.key, nil, nil, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("the right key signs beside a stranger's: %v", err)
	}
}

func TestFileOfAnotherTrail(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	_, other := busy(t)
	w.finds(w.verify(nil, other.Note), "checkpoint: the given file: it is of the trail that was made at ", "event 1: in the events 1 to 6 something was edited")
	w.finds(w.verify(w.public, other.Note), "checkpoint: the given file: it is not signed by a given key")
	w.finds(w.verify(nil, []byte("a shopping list\n")), "checkpoint: the given file: it is not a checkpoint")
	if _, _, err := w.Sign(t.Context(), w.key, nil, other.Note, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("sign over it: %v", err)
	}
}

// A checkpoint by whoever may write to the stream, and what is no checkpoint at all.
func TestStrangersCheckpoints(t *testing.T) {
	t.Parallel()
	w, signed := busy(t)
	forger, _ := newKey(t, "office")
	c := signed.Checkpoint
	forged, err := c.sign(forger)
	w.must(err)
	small := c
	small.Events, small.Root = 0, (&tree{}).root()
	smaller, err := small.sign(w.key)
	w.must(err)
	poor := c
	poor.Results, poor.Revision, poor.LedgerRoot = 0, 0, (&tree{}).root()
	poorer, err := poor.sign(w.key)
	w.must(err)
	for _, text := range [][]byte{forged, []byte("hello\n"), nil, make([]byte, 2*MaxNote), smaller, poorer} {
		_, err := w.js.Publish(t.Context(), noteSubject, text)
		w.must(err)
	}
	w.finds(w.verify(w.public, nil), "checkpoint 3: it is not signed", "checkpoint 4: it is not a checkpoint", "checkpoint 5: it is not a checkpoint",
		"checkpoint 6: it is not a checkpoint", "checkpoint 7: it covers less than the one before it", "checkpoint 8: it covers less than the one before it")
	// They are given up in the open, by who holds the key.
	e, err := w.Restart(t.Context(), w.public, nil, "ada@office", "somebody has played with the stream")
	if err != nil || len(e.GivenUp) != 6 {
		t.Fatalf("restart: %v, %d given up", err, len(e.GivenUp))
	}
	if seen := w.verify(w.public, nil); len(seen.Findings) != 6 || len(seen.GivenUp) != 0 {
		t.Errorf("a restart alone: %d given up, findings %v", len(seen.GivenUp), seen.Findings)
	}
	got, _, err := w.Sign(t.Context(), w.key, nil, nil, e.GivenUp, 0)
	if err != nil || got.Events != 7 || len(got.GivesUp) != 6 {
		t.Errorf("%v: signed %+v", err, got.Checkpoint)
	}
	if seen := w.verify(w.public, nil); !seen.Sound() || len(seen.GivenUp) != 6 || seen.Fit != 2 {
		t.Errorf("%d fit, %d given up, findings %v", seen.Fit, len(seen.GivenUp), seen.Findings)
	}
}

// What is wrong in the trail itself needs no checkpoint.
func TestWrongEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.die("a.pdf")
	other := report.NewKey(site, "b.pdf")
	act := func(kind audit.Kind, change func(*audit.Event)) audit.Event {
		e := audit.Event{Kind: kind, Key: l.Key, SiteID: site, Actor: "ada", Hash: l.Hash, Letter: 1, Payload: report.PayloadHash(l.Body)}
		change(&e)
		return e
	}
	for _, e := range []audit.Event{
		act(audit.Replay, func(*audit.Event) {}),
		act(audit.Discard, func(e *audit.Event) { e.Hash = report.AuditHash(other, "x") }),                 // 3
		act(audit.Discard, func(e *audit.Event) { e.Key = other }),                                         // 4
		act(audit.Repair, func(e *audit.Event) { e.Payload = report.PayloadHash(nil) }),                    // 5
		act(audit.Quarantine, func(e *audit.Event) { e.Payload = "zz" }),                                   // 6
		act(audit.Reprocess, func(e *audit.Event) { e.Settled = []byte(`{"state":"done"}`); e.Hash = "" }), // 7
		act(audit.Recovered, func(e *audit.Event) { e.Key, e.Payload = other, "" }),                        // its burial was cut short
	} {
		w.must(w.trail.Append(t.Context(), e))
	}
	for subject, body := range map[string]string{
		"reports.audit.TWR=201." + string(l.Key): "{", "reports.audit.NY." + string(l.Key): `{"kind":"replay","key":"` + string(l.Key) + `"}`,
	} {
		_, err := w.js.Publish(t.Context(), subject, []byte(body))
		w.must(err)
	}
	seen := w.verify(nil, nil)
	w.finds(seen, "event 3 (", "event 4 (", "event 5 (", "event 6 (", "event 7 (", "event 9 (", "event 10 (")
	for i, want := range []string{"has not recorded", "has not recorded", "another payload", "payload hash", "settled entry"} {
		if !strings.Contains(seen.Findings[i].Problem, want) {
			t.Errorf("finding %s, want %q", seen.Findings[i], want)
		}
	}
}

// A report was handed over again with another deadline, and dies of the same reason while somebody acts on its first letter.
func TestActBesideTheNextDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.die("a.pdf")
	next := dlq.Death(first)
	next.Sequence, next.Published, next.Payload = 99, next.Published.Add(time.Second), report.PayloadHash([]byte("with another deadline"))
	act := func(kind audit.Kind, letter uint64, payload string) audit.Event {
		return audit.Event{Kind: kind, Key: first.Key, SiteID: site, Actor: "ada", Hash: first.Hash, Letter: letter, Payload: payload}
	}
	w.must(w.trail.Append(t.Context(), next))
	for i, kind := range []audit.Kind{audit.Replay, audit.Recovered, audit.Discard} {
		w.must(w.trail.Append(t.Context(), act(kind, uint64(i), report.PayloadHash(first.Body))))
		w.must(w.trail.Append(t.Context(), act(kind, uint64(i+10), next.Payload)))
	}
	w.delete(dlq.Stream, first.Sequence)
	w.finds(w.verify(nil, nil))
	w.must(w.trail.Append(t.Context(), act(audit.Discard, 20, report.PayloadHash(nil))))
	w.finds(w.verify(nil, nil), "event 9 (")
}

// A second death of one message, with another reason and its own hash, and a letter that says the same.
func TestSecondDeath(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	l := w.die("s3://reports/twice.pdf")
	l.Reason = "no pages"
	l.Hash = report.AuditHash(l.Key, l.Reason)
	body, err := json.Marshal(dlq.Death(l))
	w.must(err)
	_, err = w.js.Publish(t.Context(), "reports.audit."+string(l.Site)+"."+string(l.Key), body)
	w.must(err)
	l.Sequence, err = w.letters.Put(t.Context(), l, l.Sequence)
	w.must(err)
	seen := w.verify(w.public, nil)
	w.finds(seen, "event 8 ("+l.Key.Short()+"): the trail has recorded another death of this message before", "letter 8 (")
	if _, _, err := w.Sign(t.Context(), w.key, nil, nil, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("sign: %v", err)
	}
}

// A letter that somebody has removed is named, and its report can be handed over again.
func TestLetterRemoved(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	l := w.die("s3://reports/lost.pdf")
	w.sign()
	w.delete(dlq.Stream, l.Sequence)
	w.finds(w.verify(w.public, nil), "letter ("+l.Key.Short()+"): it is missing")
	if _, _, err := w.Sign(t.Context(), w.key, nil, nil, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("sign: %v", err)
	}
	w.land("s3://reports/lost.pdf", `{}`)
	w.sound(2)
}
