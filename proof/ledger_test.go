package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// Whatever was settled, reopened and settled again since, the results of any earlier revision come out as they were then.
func TestBookOfEveryRevision(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		type moment struct {
			results int64
			root    string
		}
		b := book{past: map[rawKey][]settled{}}
		standing := map[rawKey]present{} // what the ledger holds
		done := map[rawKey]version{}
		var history []moment
		add := func(e keyvalue.Entry, replaces uint64) {
			e.Replaces = replaces
			value, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := parseRaw(e.Key())
			revision := uint64(len(history) + 1)
			if now, ok := standing[raw]; e.State == keyvalue.Reopened && ok && now.done {
				old := e
				old.State, old.Replaces = keyvalue.Done, now.replaces
				kept, _ := json.Marshal(old)
				if err := b.reopened(e.Key(), now.revision, kept, time.Time{}); err != nil {
					t.Fatal(err)
				}
				if random.IntN(3) == 0 { // two operators at once write the event twice
					_ = b.reopened(e.Key(), now.revision, kept, time.Time{})
				}
				delete(done, raw)
			}
			sum := version{}.sum
			if e.State == keyvalue.Done {
				b := book{}
				b.put(raw, revision, stands, report256(value))
				done[raw] = b.versions[0]
				sum = b.versions[0].sum
			}
			if was, ok := standing[raw]; ok && random.IntN(4) == 0 { // a replica that has not caught up shows it
				b.present = append(b.present, was)
			}
			standing[raw] = present{key: raw, revision: revision, replaces: replaces, done: e.State == keyvalue.Done, sum: sum}
			all := book{}
			for _, v := range done {
				all.versions = append(all.versions, v)
			}
			all.close()
			n, root := all.at(revision)
			history = append(history, moment{n, root.String()})
		}
		for range 60 {
			uri := fmt.Sprintf("%d.pdf", random.IntN(8))
			raw, _ := parseRaw(report.NewKey(site, uri))
			e := keyvalue.Entry{State: keyvalue.Done, SiteID: site, SourceURI: uri, Result: report.Result(`{}`)}
			now, ok := standing[raw]
			if ok && now.done {
				e.State = keyvalue.Reopened
			}
			add(e, now.revision)
		}
		for _, p := range standing {
			b.present = append(b.present, p)
		}
		b.last = uint64(len(history))
		b.close()
		for i, want := range history {
			if n, root := b.at(uint64(i + 1)); n != want.results || root.String() != want.root {
				t.Fatalf("seed %d, revision %d of %d: %d results, root %s; want %d, %s", seed, i+1, len(history), n, root, want.results, want.root)
			}
		}
	}
}

func report256(value []byte) (sum rawKey) {
	sum, _ = parseRaw(report.Key(report.PayloadHash(value)))
	return sum
}

// A report that is reopened and settled again, twice, leaves every earlier checkpoint as it was.
func TestReprocessedBetweenCheckpoints(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	const uri = "s3://reports/done2.pdf"
	for n := range 2 {
		w.reprocess(uri)
		if got := w.sign(); got.Results != 2 {
			t.Errorf("reopened: signed %d results, want 2", got.Results)
		}
		w.sound(2*n + 2)
		w.land(uri, fmt.Sprintf(`{"pages":%d}`, n+2))
		if got := w.sign(); got.Results != 3 {
			t.Errorf("settled again: signed %d results, want 3", got.Results)
		}
		w.sound(2*n + 3)
	}
	w.reprocess(uri)
	w.sound(5)
}

// A report is reopened before the ledger is read, and settled again before the scan comes to it: the scan sees neither entry. With more
// of the same on top, the digest of the revision at which reading began is still the one of what stood then.
func TestOverwrittenDuringTheScan(t *testing.T) {
	t.Parallel()
	const uri = "s3://reports/done2.pdf"
	for name, meanwhile := range map[string]func(*world){
		"settled":                func(w *world) { w.land(uri, `{"pages":2}`) },
		"settled, reopened":      func(w *world) { w.land(uri, `{"pages":2}`); w.reprocess(uri) },
		"settled, twice":         func(w *world) { w.land(uri, `{"pages":2}`); w.reprocess(uri); w.land(uri, `{"pages":3}`) },
		"nothing, only not seen": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := busy(t)
			w.reprocess(uri)
			want := w.sign()
			s := newSurvey(w.Log)
			w.must(s.readLedger(t.Context(), time.Time{}))
			key, _ := parseRaw(report.NewKey(site, uri))
			s.book.present = slices.DeleteFunc(s.book.present, func(p present) bool { return p.key == key })
			w.land("filler.pdf", `{}`)
			s.last = 7 // the trail's end; more is appended while it is read
			meanwhile(w)
			w.must(s.readTrail(t.Context(), time.Time{}))
			w.must(s.readVanished(t.Context()))
			s.book.close()
			if n, root := s.book.at(s.book.last); n != want.Results || root != want.LedgerRoot || s.book.last != want.Revision || n != 2 {
				t.Errorf("%d results at revision %d, want %d at %d", n, s.book.last, want.Results, want.Revision)
			}
			w.finds(s.report)
		})
	}
}

// What a reprocess event says was settled must still be in the ledger, in one state or another.
func TestReopenedAndRemoved(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	e, err := w.ledger.LookupLeader(t.Context(), "*", report.NewKey(site, "s3://reports/done2.pdf"))
	w.must(err)
	w.must(w.trail.Append(t.Context(), reprocessed(e)))
	w.sound(1)
	w.deletable(ledgerStream)
	w.finds(w.verify(w.public, nil), "ledger (", "checkpoint 2: the ledger is cut off")
}

// The operator's act is in the trail and the entry is not reopened yet; then two operators act at once.
func TestReprocessCutShort(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	key := report.NewKey(site, "s3://reports/done2.pdf")
	e, err := w.ledger.LookupLeader(t.Context(), "*", key)
	w.must(err)
	event := reprocessed(e)
	w.must(w.trail.Append(t.Context(), event))
	w.sound(1)
	w.sign()
	w.sound(2)
	w.reprocess("s3://reports/done2.pdf")
	event.Actor, event.Time = "bob@office", time.Now()
	w.must(w.trail.Append(context.Background(), event))
	w.sound(2)
}

// A ledger that forgets is not taken for one that was tampered with, nor can it be signed: of what is forgotten a checkpoint would prove
// that it never landed.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	w.sound(1)
	w.reprocess("s3://reports/done2.pdf")
	age(t, w, 200*time.Millisecond)
	natstest.Eventually(t, "the results to be forgotten", func() bool {
		n, err := w.ledger.Len(t.Context())
		return err == nil && n == 0
	})
	r := w.verify(w.public, nil)
	w.finds(r, "checkpoint 2: the ledger forgets a result after 200ms: of the 3 that were signed 1 are left, and whether the others have only grown old is not known")
	if _, _, err := w.Sign(t.Context(), w.key, nil, nil, nil, 0); !errors.Is(err, ErrForgets) {
		t.Errorf("signed a ledger that forgets: %v", err)
	}
	age(t, w, time.Hour) // what is reopened within an hour is missed
	w.finds(w.verify(w.public, nil), "ledger (", "checkpoint 2: the ledger forgets a result after 1h0m0s")
}

// age has the ledger's entries grow as old as that at most.
func age(t *testing.T, w *world, most time.Duration) {
	t.Helper()
	natstest.Eventually(t, "the entries to be old enough", func() bool {
		s, err := w.js.Stream(t.Context(), ledgerStream)
		return err == nil && (s.CachedInfo().State.Msgs == 0 || s.CachedInfo().TimeStamp.Sub(s.CachedInfo().State.FirstTime) > min(most, time.Second))
	})
	w.must(keyvalue.KeepLedger(t.Context(), w.js, most, true))
}

func TestTamperedLedger(t *testing.T) {
	t.Parallel()
	const entry = "$KV.reports_ledger.TWR=201."
	key := report.NewKey(site, "s3://reports/done2.pdf")
	for name, tt := range map[string]struct {
		change func(*world)
		want   []string
	}{
		"edited": {func(w *world) {
			e, err := w.ledger.LookupLeader(context.Background(), "*", key)
			w.must(err)
			_, err = w.js.Publish(context.Background(), entry+string(key), []byte(strings.Replace(string(e.Raw), `"pages":1`, `"pages":2`, 1)))
			w.must(err)
		}, []string{"checkpoint 2: the ledger had 2 results at revision 3, and 3 were signed"}},
		"edited in a stream made anew": {func(w *world) {
			w.rebuild(ledgerStream, func(all []*nats.Msg) []*nats.Msg {
				all[1].Data = []byte(strings.Replace(string(all[1].Data), `"pages":1`, `"pages":2`, 1))
				return all
			})
		}, []string{"checkpoint 2: the ledger's results at revision 3 are not the ones that were signed"}},
		"removed": {func(w *world) {
			w.rebuild(ledgerStream, func(all []*nats.Msg) []*nats.Msg { return slices.Delete(all, 1, 2) })
			w.land("another", `{}`)
		}, []string{"checkpoint 2: the ledger's results at revision 3 are not the ones that were signed"}},
		"swapped": {func(w *world) {
			w.rebuild(ledgerStream, func(all []*nats.Msg) []*nats.Msg { all[1], all[2] = all[2], all[1]; return all })
		}, []string{"checkpoint 2: the ledger's results at revision 3 are not the ones that were signed"}},
		"cut off": {func(w *world) {
			w.rebuild(ledgerStream, func(all []*nats.Msg) []*nats.Msg { return all[:2] })
		}, []string{"checkpoint 2: the ledger is cut off: it ends at revision 2, and 3 was signed"}},
		"deleted": {func(w *world) {
			_, err := w.js.PublishMsg(context.Background(), &nats.Msg{Subject: entry + string(key), Header: nats.Header{"KV-Operation": {"DEL"}}})
			w.must(err)
		}, []string{"ledger 4 (", "checkpoint 2: the ledger had 2 results at revision 3"}},
		"another report's": {func(w *world) {
			_, err := w.js.Publish(context.Background(), entry+string(report.NewKey(site, "x")), w.messages(ledgerStream)[0].Data)
			w.must(err)
		}, []string{"ledger 4 ("}},
		"another site's": {func(w *world) {
			all := w.messages(ledgerStream)
			_, err := w.js.Publish(context.Background(), strings.Replace(all[0].Subject, "TWR=201", "NY", 1), all[0].Data)
			w.must(err)
		}, []string{"ledger 4 ("}},
		"rubbish": {func(w *world) {
			_, err := w.js.Publish(context.Background(), entry+"x", []byte("{"))
			w.must(err)
		}, []string{"ledger 4 (x): "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := busy(t)
			w.sound(1)
			tt.change(w)
			w.finds(w.verify(w.public, nil), tt.want...)
		})
	}
}

const ledgerStream = "KV_reports_ledger"
