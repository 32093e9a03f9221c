package proof

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

func TestRestart(t *testing.T) {
	t.Parallel()
	w, signed := busy(t)
	if _, err := w.Restart(t.Context(), nil, nil, "ada@office", " "); err == nil {
		t.Error("without a reason: no error")
	}
	if _, err := w.Restart(t.Context(), w.public, signed.Note, "ada@office", "why not"); !errors.Is(err, ErrFits) {
		t.Errorf("everything fits: %v", err)
	}
	if got := len(w.messages(audit.Stream)); got != 6 {
		t.Errorf("what was refused is recorded: %d events", got)
	}
	// A backup is brought back: the trail is made anew, with four of its six events. The letters of two have no deaths then.
	w.rebuild(audit.Stream, func(all []*nats.Msg) []*nats.Msg { return all[:4] })
	w.rebuild("REPORTS_DLQ", func(all []*nats.Msg) []*nats.Msg { return all[:4] })
	if seen := w.verify(w.public, nil); seen.Sound() {
		t.Fatal("nothing is found")
	}
	e, err := w.Restart(t.Context(), w.public, signed.Note, "ada@office", "the disk failed, restored from Sunday's backup")
	if err != nil || e.Checkpoint != string(signed.Note) || e.Kind != audit.Restart || len(e.GivenUp) != 1 {
		t.Fatalf("%v: recorded %+v", err, e)
	}
	w.finds(w.verify(w.public, nil), "checkpoint 2: it is of the trail", "event 5: the event was edited", "event 6: the event was cut off")
	giveUp := e.GivenUp
	for n := range 2 {
		again, _, err := w.Sign(t.Context(), w.key, nil, signed.Note, giveUp, 0) // over the file that was given up
		if err != nil || again.Events != 5 || len(again.GivesUp) != 1-n {
			t.Fatalf("sign: %v, %+v", err, again.Checkpoint)
		}
		giveUp = nil // it has been said
		seen := w.verify(w.public, nil)
		if !seen.Sound() || len(seen.GivenUp) != 1 || seen.GivenUp[0].Actor != "ada@office" || seen.GivenUp[0].Sequence != signed.Sequence {
			t.Errorf("%+v", seen)
		}
		// Who kept the checkpoint elsewhere is told, by name.
		w.finds(w.verify(w.public, signed.Note), "checkpoint: the given file: it is of the trail", "event 5: the event was edited", "event 6: the event was cut off")
	}
	if _, err := w.Restart(t.Context(), w.public, signed.Note, "ada@office", "again"); !errors.Is(err, ErrFits) {
		t.Errorf("everything fits again: %v", err)
	}

	// It forgives nothing that comes later.
	w.rebuild(audit.Stream, func(all []*nats.Msg) []*nats.Msg { all[1], all[2] = all[2], all[1]; return all })
	w.finds(w.verify(w.public, nil), "checkpoint 4: ", "checkpoint 5: ", "event 2: the event was moved")
}

// A whole store is brought back from a backup: its checkpoints fit it, and only the file tells.
func TestRestartByFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.die("a.pdf")
	w.sign()
	backup := w.messages(audit.Stream)
	w.die("b.pdf")
	newest := w.sign()
	w.rebuild(audit.Stream, func([]*nats.Msg) []*nats.Msg { return backup })
	w.rebuild("REPORTS_DLQ", func(all []*nats.Msg) []*nats.Msg { return all[:1] })
	w.rebuild(Stream, func([]*nats.Msg) []*nats.Msg { return nil })
	fits := w.sign()
	if _, _, err := w.Sign(t.Context(), w.key, nil, newest.Note, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("sign over a newer file: %v", err)
	}
	e, err := w.Restart(t.Context(), w.public, newest.Note, "ada@office", "restored")
	if err != nil || len(e.GivenUp) != 1 || e.Checkpoint != string(newest.Note) {
		t.Fatalf("%v: recorded %+v", err, e)
	}
	if _, _, err := w.Sign(t.Context(), w.key, nil, newest.Note, nil, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("sign on the word of the restart alone: %v", err)
	}
	if _, _, err := w.Sign(t.Context(), w.key, nil, newest.Note, e.GivenUp, 0); err != nil {
		t.Errorf("sign over the file that was given up: %v", err)
	}
	w.finds(w.verify(w.public, newest.Note), "checkpoint: the given file: ", "event 1: in the events 1 to 2 something")
	if seen := w.verify(w.public, fits.Note); !seen.Sound() || seen.Fit != 2 || !*seen.FileFits {
		t.Errorf("%+v", seen)
	}
}

// Whoever may write to trail and ledger, as a worker may, changes a result and writes the restart that would forgive it, in the office's name.
func TestForgedRestart(t *testing.T) {
	t.Parallel()
	for name, rebuilt := range map[string]bool{"beside the checkpoints": false, "in a stream of checkpoints made anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, signed := busy(t)
			e, err := w.ledger.LookupLeader(t.Context(), "*", report.NewKey(site, "s3://reports/done2.pdf"))
			w.must(err)
			subject := "$KV.reports_ledger." + string(report.NewToken(site)) + "." + string(e.Key())
			_, err = w.js.Publish(t.Context(), subject, bytes.Replace(e.Raw, []byte(`"pages":1`), []byte(`"pages":2`), 1))
			w.must(err)
			sum := report.PayloadHash(signed.Note)
			w.must(w.trail.Append(t.Context(), audit.Event{
				Time: time.Now().UTC(), Kind: audit.Restart, Key: report.Key(sum), Actor: "ada@office", Reason: "restored", GivenUp: []string{sum},
			}))
			want := []string{"checkpoint: the given file: the ledger had 2 results at revision 3, and 3 were signed (a restart by ada@office gives it up because restored, but no signed"}
			if rebuilt {
				w.rebuild(Stream, func([]*nats.Msg) []*nats.Msg { return nil })
			} else {
				want = append(want, "checkpoint 2: the ledger had 2 results at revision 3, and 3 were signed (a restart by ada@office")
			}
			_, seen, err := w.Sign(t.Context(), w.key, nil, signed.Note, nil, 0)
			if !errors.Is(err, ErrFindings) {
				t.Fatalf("the office signs the forged result: %v", err)
			}
			w.finds(seen, want...)
			w.finds(w.verify(w.public, signed.Note), want...)
			if seen := w.verify(w.public, nil); seen.Sound() != rebuilt || len(seen.GivenUp) > 0 {
				t.Errorf("given up %v, findings %v", seen.GivenUp, seen.Findings)
			}

			// A checkpoint that says so counts only under a known signature.
			forger, _ := newKey(t, "office")
			c := signed.Checkpoint
			c.GivesUp = []string{sum}
			forged, err := c.sign(forger)
			w.must(err)
			_, err = w.js.Publish(t.Context(), noteSubject, forged)
			w.must(err)
			if seen := w.verify(w.public, signed.Note); len(seen.GivenUp) > 0 || len(seen.Findings) != len(want)+1 {
				t.Errorf("given up %v, findings %v", seen.GivenUp, seen.Findings)
			}
		})
	}
}

// What is given up must be there, must not fit, and must have its reason on record.
func TestGiveUpRefuses(t *testing.T) {
	t.Parallel()
	w, signed := busy(t)
	giveUp := func(file []byte, want error, sums ...string) {
		t.Helper()
		if _, _, err := w.Sign(t.Context(), w.key, nil, file, sums, 0); !errors.Is(err, want) {
			t.Errorf("%.12s: %v, want %v", sums, err, want)
		}
	}
	sum := report.PayloadHash(signed.Note)
	giveUp(nil, ErrGiveUp, sum) // it fits
	giveUp(nil, ErrGiveUp, report.PayloadHash(nil))
	w.rebuild(audit.Stream, func(all []*nats.Msg) []*nats.Msg { return all })
	giveUp(nil, ErrGiveUp, sum) // no restart says why
	e, err := w.Restart(t.Context(), w.public, nil, "ada@office", "moved to another server")
	w.must(err)
	giveUp(nil, ErrGiveUp, sum, sum)
	giveUp(nil, ErrFindings)
	giveUp([]byte("milk\n"), ErrNote, sum)
	if _, err := w.Restart(t.Context(), w.public, []byte("milk\n"), "ada@office", "a slip"); !errors.Is(err, ErrNote) {
		t.Errorf("restart with a shopping list: %v", err)
	}
	giveUp(nil, nil, e.GivenUp...)
	if got := len(w.messages(audit.Stream)); got != 7 {
		t.Errorf("the trail has %d events, want 7", got)
	}
}

// The ledger was brought back from a backup and the trail was not, so a checkpoint is given up whose events all fit. The next one may cover fewer
// of them, as some are young.
func TestGiveUpMoreThanIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.die("1")
	w.sign()
	w.land("done", `{}`)
	w.die("2")
	given := w.sign()
	ledger, err := w.js.Stream(t.Context(), keyvalue.LedgerStream)
	w.must(err)
	w.remake(ledger.CachedInfo().Config)
	restart, err := w.Restart(t.Context(), w.public, nil, "ada@office", "brought back from a backup")
	w.must(err)
	signed, seen, err := w.Sign(t.Context(), w.key, nil, nil, restart.GivenUp, time.Hour)
	if err != nil || signed.Events != 1 || signed.Young != given.Events {
		t.Fatalf("signed %d events, %d are young, %v: %v", signed.Events, signed.Young, err, seen.Findings)
	}
	w.sound(2)
	w.sign()
	w.sound(3)
}
