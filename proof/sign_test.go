package proof

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
)

func reprocessed(e keyvalue.Entry) audit.Event {
	return audit.Event{
		Time: time.Now().UTC(), Kind: audit.Reprocess, Key: e.Key(), SiteID: e.SiteID, Actor: "ada@office", Reason: "a corrected file",
		Revision: e.Revision, Settled: e.Raw,
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, _, err := w.Sign(t.Context(), w.key, nil, nil, nil, 0); !errors.Is(err, ErrNothing) {
		t.Errorf("an empty log: %v", err)
	}
	w.land("a.pdf", `{}`)
	if _, seen, err := w.Sign(t.Context(), w.key, nil, nil, nil, time.Hour); !errors.Is(err, ErrNothing) || seen.Results != 1 {
		t.Errorf("all of it is too young: %v", err)
	}
	first := w.sign()
	if first.Events != 0 || first.Results != 1 || first.Revision != 1 { // a night without a failure can be proved too
		t.Errorf("signed %+v", first.Checkpoint)
	}
	w.die("b.pdf")
	second := w.sign()
	if second.Events != 1 || second.Young != 0 {
		t.Errorf("signed %+v", second)
	}
	w.die("c.pdf")
	w.land("d.pdf", `{}`)
	third, _, err := w.Sign(t.Context(), w.key, nil, second.Note, nil, time.Hour) // all that is old enough had been signed before
	if err != nil || third.Events != 1 || third.Revision != 1 || third.Young != 1 || third.Root != second.Root {
		t.Errorf("%v: signed %+v", err, third)
	}
	w.sound(3)
	c, signers, err := Open(third.Note, w.public)
	if err != nil || !reflect.DeepEqual(c, third.Checkpoint) || len(signers) != 1 || signers[0] != w.key.ID() {
		t.Errorf("the note says %+v by %v, %v", c, signers, err)
	}
	if seen := w.verify(w.public, first.Note); !seen.Sound() || seen.Fit != 3 || !*seen.FileFits || seen.Newest.Events != 1 {
		t.Errorf("an old file: %+v", seen)
	}
}

// The server's clock decides what is old enough: what comes after the first that is not waits too.
func TestYoungIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, uri := range []string{"1", "2", "3"} {
		w.die(uri)
		w.land("done"+uri, `{}`)
	}
	stored := func(name string, seq uint64) time.Time {
		m, err := jsapi.Get(t.Context(), w.js, name, seq)
		w.must(err)
		return m.Time
	}
	for n := range uint64(3) {
		s, err := w.read(t.Context(), nil, 0, false)
		w.must(err)
		whole := s.ripe
		s.tree, s.book = tree{}, book{}
		ripe := stored(audit.Stream, n+1)
		w.must(s.readTrail(t.Context(), ripe))
		var want tree
		for i, m := range w.messages(audit.Stream)[:n+1] {
			want.add(eventLeaf(uint64(i+1), m.Subject, m.Data))
		}
		if whole != 3 || s.ripe != want.size || s.ripeRoot != want.root() {
			t.Errorf("old enough are %d of %d events, want %d", s.ripe, whole, want.size)
		}
		w.must(s.readLedger(t.Context(), stored("KV_reports_ledger", n+1)))
		if s.book.ripe != n+1 || s.book.last != 3 {
			t.Errorf("old enough are %d of %d revisions, want %d", s.book.ripe, s.book.last, n+1)
		}
	}
}

// Of several who sign in the same moment one or more win, one after the other, and the stream is as if they had taken turns.
func TestSignAtOnce(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	last, err := w.last(t.Context(), noteSubject)
	w.must(err)
	same := w.sign() // the one who was faster
	if _, err := w.append(t.Context(), &nats.Msg{Subject: noteSubject, Data: same.Note}, last); !errors.Is(err, ErrRace) {
		t.Errorf("the slower one: %v", err)
	}
	for round := range 5 {
		w.die(fmt.Sprintf("more%d.pdf", round))
		before := len(w.messages(Stream))
		var all sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			all.Go(func() { _, _, errs[i] = w.Sign(t.Context(), w.key, nil, nil, nil, 0) })
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, ErrRace):
				t.Error(err)
			}
		}
		if notes := len(w.messages(Stream)) - before; won == 0 || notes < won {
			t.Errorf("%d of them signed, %d messages: %v", won, notes, errs)
		}
	}
	if seen := w.verify(w.public, nil); !seen.Sound() {
		t.Errorf("findings %v", seen.Findings)
	}
}

// The loser of a race leaves nothing that counts, and whoever died between the hashes and the note is made up for.
func TestSignCutShort(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	w.die("more.pdf")
	last, err := w.last(t.Context(), leavesSubject)
	w.must(err)
	w.must(w.appendLeaves(t.Context(), 6, hashes(2), last))
	if err := w.appendLeaves(t.Context(), 6, hashes(1), last); !errors.Is(err, ErrRace) {
		t.Errorf("the same place again: %v", err)
	}
	w.sign()
	w.sound(2)
	w.rebuild(audit.Stream, lastEdited)
	w.finds(w.verify(w.public, nil), "checkpoint 2: ", "checkpoint 5: ", "event 7: the event was edited")
}

// A letter that is being buried while the log is verified, or signed, is no finding.
func TestBurialInProgress(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	l := w.die("more.pdf")
	m := w.republish(l)
	l.Source, l.PublishedAt = m.Identity, m.PublishedAt
	var err error
	l.Sequence, err = w.letters.Put(t.Context(), l, l.Sequence)
	w.must(err)
	w.sound(1)
	w.sign()
	w.must(w.letters.RecordDeath(t.Context(), l))
	w.sound(2)
	w.must(w.queues.Delete(t.Context(), m.Ref))
	if outcome, err := w.letters.Replay(t.Context(), l.Sequence, dlq.By{Actor: "ada@office"}); outcome != dlq.Replayed || err != nil {
		t.Errorf("replay: %s, %v", outcome, err)
	}
	w.sound(2)
	w.sign()
	w.sound(3)
}

// The hashes of many events go into several messages.
func TestManyLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 2*leavesAtOnce + 10
	want := hashes(n)
	for i := range want {
		want[i] = eventLeaf(uint64(i), "", nil)
	}
	w.must(w.appendLeaves(t.Context(), 0, want, 0))
	if got := len(w.messages(Stream)); got != 3 {
		t.Errorf("%d messages, want 3", got)
	}
	for _, size := range []int64{0, 1, leavesAtOnce, leavesAtOnce + 1, n} {
		if got, err := w.leaves(t.Context(), size, 0); err != nil || !slices.Equal(got, want[:size]) {
			t.Errorf("of the first %d there are %d, or others; %v", size, len(got), err)
		}
	}
	if got, err := w.leaves(t.Context(), n+5, 2); err != nil || !slices.Equal(got, want[:2*leavesAtOnce]) {
		t.Errorf("of the first two messages there are %d, or others; %v", len(got), err)
	}
	// What somebody else has put there is not taken for hashes, or not believed.
	for _, m := range []*nats.Msg{
		{Data: []byte("x")}, {Header: nats.Header{headerFirst: {"-1"}}}, {Header: nats.Header{headerFirst: {"99999999999"}}, Data: make([]byte, 64)},
	} {
		m.Subject = leavesSubject
		_, err := w.js.PublishMsg(t.Context(), m)
		w.must(err)
	}
	if got, err := w.leaves(t.Context(), n, 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("beside rubbish there are %d, or others; %v", len(got), err)
	}
}

// Who takes over signs with a key of his own; both count for whoever knows both.
func TestAnotherSigner(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	next, nexts := newKey(t, "successor")
	if _, seen, err := w.Sign(t.Context(), next, nil, nil, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("without the predecessor's key: %v", err)
	} else {
		w.finds(seen, "checkpoint 2: it is not signed by a given key")
	}
	if _, _, err := w.Sign(t.Context(), next, w.public, nil, nil, 0); err != nil {
		t.Error(err)
	}
	both := w.public.With(nexts...).With([]note.Verifier(w.public)...)
	if len(both) != 2 {
		t.Errorf("%d keys, want 2", len(both))
	}
	if seen := w.verify(both, nil); !seen.Sound() || seen.Fit != 2 || seen.SignedBy[0] != next.ID() {
		t.Errorf("%+v", seen)
	}
	w.finds(w.verify(nexts, nil), "checkpoint 2: it is not signed")
}
