package dlq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

const (
	badHash     = "the audit hash does not fit the reason"
	badPayload  = "the payload is another report's"
	badReason   = "the audit trail has recorded another reason for this death"
	badRecord   = "the audit trail has recorded another class, code, number of attempts or payload for this death"
	notRecorded = "the audit trail has not recorded this death"
)

// verify returns what is wrong with each letter.
func (y yard) verify(t testing.TB) map[report.Key]string {
	t.Helper()
	found := map[report.Key]string{}
	for f, err := range y.Verify(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[f.Letter.Key]; twice {
			t.Errorf("letter of %s is found twice", f.Letter.Key.Short())
		}
		found[f.Letter.Key] = f.Problem
	}
	return found
}

// forge replaces a letter by one with other headers and payload, without asking this package.
func (y yard) forge(t testing.TB, l Letter, change func(*nats.Msg)) {
	t.Helper()
	msg := &nats.Msg{Subject: subject(l.Site, l.Key), Header: l.header(), Data: l.Body}
	change(msg)
	if _, err := y.js.PublishMsg(context.Background(), msg); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	if got := y.verify(t); len(got) != 0 {
		t.Errorf("an empty queue: %v", got)
	}
	want := map[report.Key]string{}
	for problem, change := range map[string]map[string]func(*nats.Msg){
		badHash: {
			"reason":     func(m *nats.Msg) { m.Header.Set(report.HeaderReason, "it was empty") },
			"hash":       func(m *nats.Msg) { m.Header.Set(report.HeaderAuditHash, report.AuditHash("x", "y")) },
			"no hash":    func(m *nats.Msg) { m.Header.Del(report.HeaderAuditHash) },
			"no headers": func(m *nats.Msg) { m.Header = nil },
		},
		badPayload: {
			"payload":        func(m *nats.Msg) { m.Data = []byte(`{"site_id":"TWR 1","source_uri":"another.pdf"}`) },
			"payload's site": func(m *nats.Msg) { m.Data = []byte(`{"site_id":"TWR 2","source_uri":"payload's site"}`) },
			"no payload":     func(m *nats.Msg) { m.Data = nil },
			"a status":       func(m *nats.Msg) { m.Data = nil; m.Header.Set("Status", "404") }, // a client library would not show it
		},
		badReason: {
			"reason and hash": func(m *nats.Msg) {
				m.Header.Set(report.HeaderReason, "it was empty")
				m.Header.Set(report.HeaderAuditHash, report.AuditHash(report.NewKey("TWR 1", "reason and hash"), "it was empty"))
			},
		},
		badRecord: {
			"class":       func(m *nats.Msg) { m.Header.Set(report.HeaderClass, "exhausted") },
			"no class":    func(m *nats.Msg) { m.Header.Del(report.HeaderClass) },
			"code":        func(m *nats.Msg) { m.Header.Set(report.HeaderCode, "no-pages") },
			"attempts":    func(m *nats.Msg) { m.Header.Set(report.HeaderAttempts, "4") },
			"no attempts": func(m *nats.Msg) { m.Header.Del(report.HeaderAttempts) },
			"metadata":    func(m *nats.Msg) { m.Data = bytes.Replace(m.Data, []byte("firm"), []byte("form"), 1) },
		},
		notRecorded: {
			"stream":          func(m *nats.Msg) { m.Header.Set(report.HeaderStream, "KV_reports_ledger") },
			"stream missing":  func(m *nats.Msg) { m.Header.Set(report.HeaderStream, "NOWHERE") },
			"no stream":       func(m *nats.Msg) { m.Header.Del(report.HeaderStream) },
			"sequence":        func(m *nats.Msg) { m.Header.Set(report.HeaderStreamSequence, "9999") },
			"large sequence":  func(m *nats.Msg) { m.Header.Set(report.HeaderStreamSequence, "9223372036854775807") },
			"no sequence":     func(m *nats.Msg) { m.Header.Del(report.HeaderStreamSequence) },
			"another stream":  func(m *nats.Msg) { m.Header.Set(report.HeaderStream, stream.Requeued) },
			"another garbled": func(m *nats.Msg) { m.Header.Set(report.HeaderStreamSequence, "x") },
		},
		"": {
			"untouched":        func(*nats.Msg) {},
			"a foreign header": func(m *nats.Msg) { m.Header.Set("X-Firm", "another") },
		},
	} {
		for uri, change := range change {
			l := y.die(t, uri)
			want[l.Key] = problem
			y.forge(t, l, change)
		}
	}

	// A sound letter under another report's name, and one that was moved to another site.
	l := y.die(t, "copied")
	want[l.Key], want["0000"] = "", badHash
	y.forge(t, l, func(m *nats.Msg) { m.Subject = subject(l.Site, "0000") })
	l = y.die(t, "moved")
	want[l.Key] = badPayload
	y.forge(t, l, func(m *nats.Msg) { m.Subject = subject("another", l.Key) })
	if err := y.delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}

	// An operator's act is no death, though it names the hash.
	l = y.die(t, "acted on")
	want[l.Key] = notRecorded
	if err := y.record(t.Context(), audit.Replay, l, operator); err != nil {
		t.Fatal(err)
	}
	y.forge(t, l, func(m *nats.Msg) { m.Header.Del(report.HeaderStream); m.Header.Del(report.HeaderStreamSequence) })

	// Deaths of every kind are sound.
	want[y.bury(t, y.undecodable(t), "it is not JSON").Key] = ""
	l = y.die(t, "again")
	y.replay(t, l, Replayed)
	want[y.bury(t, y.queued(t)[0], "no pages").Key] = ""
	l = y.dieAs(t, "corrected", func(l *Letter) { l.Class, l.Code = report.ClassAbandoned, report.CodeAbandoned })
	verdict := letterOf(stream.Message{Key: l.Key, Site: l.Site, Identity: l.Source, PublishedAt: l.PublishedAt, Body: l.Body}, "no pages")
	verdict = y.put(t, verdict)
	if err := y.RecordDeath(t.Context(), verdict); err != nil {
		t.Fatal(err)
	}
	want[l.Key] = ""

	// Burials that are going on are sound; one that nobody will finish is not.
	m := y.publish(t, "buried now")
	want[y.put(t, letterOf(m, "no pages")).Key] = ""
	m = y.handBack(t, y.publish(t, "handed back"))
	want[y.put(t, letterOf(m, "no pages")).Key] = ""
	m = y.publish(t, "never recorded")
	want[y.put(t, letterOf(m, "no pages")).Key] = notRecorded
	if err := y.queues.Delete(t.Context(), m.Ref); err != nil {
		t.Fatal(err)
	}
	if got := y.verify(t); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// What somebody has put into the trail that is not an event stays there for good. It is no death, and the letters are compared with those
// that are recorded before and after it.
func TestVerifyBesideTheUnreadable(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	before := y.die(t, "before")
	if _, err := y.js.Publish(t.Context(), "reports.audit.x.y", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	after, altered := y.die(t, "after"), y.die(t, "altered")
	y.forge(t, altered, func(m *nats.Msg) { m.Header.Set(report.HeaderCode, "no-pages") })
	want := map[report.Key]string{before.Key: "", after.Key: "", altered.Key: badRecord}
	if got := y.verify(t); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// A message dies once: a second death of it, with a letter that says the same, is neither believed nor passed over.
func TestSecondDeath(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	first := y.die(t, "a.pdf")
	forged := first
	forged.Reason = "no pages"
	forged.Hash = report.AuditHash(first.Key, forged.Reason)
	for name, change := range map[string]func(*audit.Event){
		"of this message": func(*audit.Event) {},
		"that corrects":   func(e *audit.Event) { e.Corrects = true },
		"without a time":  func(e *audit.Event) { e.Published = time.Time{} },
	} {
		e := Death(forged)
		change(&e)
		var deaths Deaths
		if problem := deaths.Add(Death(first)); problem != "" {
			t.Errorf("the first: %s", problem)
		}
		if problem := deaths.Add(Death(first)); problem != "" {
			t.Errorf("the first, recorded twice: %s", problem)
		}
		if problem := deaths.Add(e); problem == "" {
			t.Errorf("a second death %s is accepted", name)
		}
		msg, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := y.js.Publish(t.Context(), "reports.audit."+string(first.Site)+"."+string(first.Key), msg); err != nil {
			t.Fatal(err)
		}
	}
	y.forge(t, forged, func(*nats.Msg) {})
	if got := y.verify(t); got[first.Key] != badReason {
		t.Errorf("the letter: %q", got[first.Key])
	}

	// In a stream that was made anew another message has the same place. An abandoned one can be corrected, once.
	var deaths Deaths
	again, abandoned, corrects := Death(forged), Death(first), Death(forged)
	again.Published = again.Published.Add(time.Hour)
	abandoned.Sequence, abandoned.Class, abandoned.Code = 77, report.ClassAbandoned, report.CodeAbandoned
	corrects.Sequence, corrects.Corrects = 77, true
	for i, e := range []audit.Event{Death(first), again, abandoned, corrects, corrects} {
		if problem := deaths.Add(e); problem != "" {
			t.Errorf("event %d: %s", i, problem)
		}
	}
	corrects.Attempt++
	for i, e := range []audit.Event{abandoned, corrects} {
		if problem := deaths.Add(e); problem == "" {
			t.Errorf("after the correction, event %d is accepted", i)
		}
	}
}

// undecodable puts a message into the queue that no one can read.
func (y yard) undecodable(t testing.TB) stream.Message {
	t.Helper()
	ack, err := y.js.Publish(context.Background(), "reports.submitted.x", []byte("\xff{"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := y.queues.Stored(context.Background(), stream.Ref{Stream: stream.Reports, Sequence: ack.Sequence})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What moves while it is verified is no mismatch: a burial ends, a letter leaves, another is put.
func TestVerifyMoves(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	first := y.die(t, "first")
	ending, leaving := y.publish(t, "ending"), y.publish(t, "leaving")
	ends, leaves := y.put(t, letterOf(ending, "no pages")), y.put(t, letterOf(leaving, "no pages"))
	got := map[report.Key]string{}
	for f, err := range y.Verify(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[f.Letter.Key] = f.Problem
		if f.Letter.Key != first.Key {
			continue
		}
		if err := y.RecordDeath(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
		if err := y.queues.Delete(t.Context(), ending.Ref); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(y.queues.Delete(t.Context(), leaving.Ref), y.delete(t.Context(), leaves)); err != nil {
			t.Fatal(err)
		}
		y.die(t, "another")
	}
	if want := (map[report.Key]string{first.Key: "", ends.Key: "", leaves.Key: ""}); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	for f := range y.Verify(t.Context()) { // the loop may break
		if f.Letter.Key != first.Key {
			t.Errorf("the first letter is %s", f.Letter.Key)
		}
		break
	}
}
