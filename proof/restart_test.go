package proof

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
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
	if err != nil || e.Checkpoint != string(signed.Note) || e.Kind != audit.Restart || len(e.GivenUp) != 2 {
		t.Fatalf("%v: recorded %+v", err, e)
	}
	for range 2 {
		seen := w.verify(w.public, nil)
		if !seen.Sound() || len(seen.GivenUp) != 1 || seen.GivenUp[0].Actor != "ada@office" || seen.GivenUp[0].Sequence != signed.Sequence {
			t.Errorf("%+v", seen)
		}
		// Who kept the checkpoint elsewhere is told, by name.
		w.finds(w.verify(w.public, signed.Note), "checkpoint: the given file: it is of the trail", "event 5: the event was edited", "event 6: the event was cut off")
		again, _, err := w.Sign(t.Context(), w.key, nil, signed.Note, 0) // over the file that was given up
		if err != nil || again.Events != 5 {
			t.Fatalf("sign: %v, %d events", err, again.Events)
		}
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
	if _, _, err := w.Sign(t.Context(), w.key, nil, newest.Note, 0); !errors.Is(err, ErrFindings) {
		t.Errorf("sign over a newer file: %v", err)
	}
	e, err := w.Restart(t.Context(), w.public, newest.Note, "ada@office", "restored")
	if err != nil || len(e.GivenUp) != 1 || e.Checkpoint != string(newest.Note) {
		t.Fatalf("%v: recorded %+v", err, e)
	}
	if _, _, err := w.Sign(t.Context(), w.key, nil, newest.Note, 0); err != nil {
		t.Errorf("sign over the file that was given up: %v", err)
	}
	w.finds(w.verify(w.public, newest.Note), "checkpoint: the given file: ", "event 1: in the events 1 to 2 something")
	if seen := w.verify(w.public, fits.Note); !seen.Sound() || seen.Fit != 2 || !*seen.FileFits {
		t.Errorf("%+v", seen)
	}
}
