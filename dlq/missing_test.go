package dlq

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// missing expects the reports whose letters were taken away without a trace. While it verifies, something may happen.
func (y yard) wantMissing(t testing.TB, meanwhile func(), want ...report.Key) {
	t.Helper()
	var deaths Deaths
	for e, err := range y.trail.All(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		deaths.Add(e)
	}
	for _, err := range y.VerifyAgainst(context.Background(), &deaths) {
		if err != nil {
			t.Fatal(err)
		}
	}
	meanwhile()
	var got []report.Key
	for key, err := range y.Missing(context.Background(), &deaths) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, key)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("missing are %v, want %v", got, want)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	nothing := func() {}
	y.wantMissing(t, nothing)
	remove := func(l Letter) report.Key {
		if err := jsapi.Delete(t.Context(), y.js, Stream, l.Sequence); err != nil {
			t.Fatal(err)
		}
		return l.Key
	}
	act := func(outcome Outcome, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(outcome, err)
		}
	}

	// What somebody has done something about needs no letter, and what is there needs no act.
	y.die(t, "there")
	act(y.Discard(t.Context(), y.die(t, "discarded").Sequence, operator))
	act(y.Replay(t.Context(), y.die(t, "replayed").Sequence, operator))
	again := y.die(t, "dead again")
	act(y.Replay(t.Context(), again.Sequence, operator))
	m, err := y.queues.Copy(t.Context(), again.Site, again.Key)
	if err != nil {
		t.Fatal(err)
	}
	again = y.bury(t, m, "no pages")
	y.wantMissing(t, nothing)

	lost := []report.Key{remove(y.die(t, "lost")), remove(again)}
	quarantined := y.dieAs(t, "quarantined", func(l *Letter) { l.Replays = DefaultReplayMax })
	lost = append(lost, remove(quarantined))
	late := y.die(t, "late")
	if err := y.trail.Append(t.Context(), audit.Event{Time: time.Now(), Kind: audit.AttemptFailed, Key: late.Key, SiteID: late.SiteID(), Sequence: 5}); err != nil {
		t.Fatal(err)
	}
	lost = append(lost, remove(late))
	hidden := y.die(t, "hidden behind rubbish")
	lost = append(lost, remove(hidden))
	landed := y.die(t, "landed")
	remove(landed)
	if _, err := y.ledger.Commit(t.Context(), keyvalue.Entry{State: keyvalue.Done, SiteID: "TWR 1", SourceURI: "landed", Result: report.Result("{}")}); err != nil {
		t.Fatal(err)
	}
	rubbish := func() {
		if _, err := y.js.Publish(t.Context(), "reports.audit."+string(hidden.Site)+"."+string(hidden.Key), []byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	y.wantMissing(t, rubbish, lost...)
	var deaths Deaths // a key that is none is never asked for
	deaths.Add(audit.Event{Kind: audit.Death, Key: ">"})
	for key, err := range y.Missing(t.Context(), &deaths) {
		t.Errorf("missing %q, %v", key, err)
	}
}

// A letter that leaves by an act, or comes back, while it is looked for is in motion.
func TestMissingMoves(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	leaves, dies := y.die(t, "leaves"), y.die(t, "dies again")
	y.wantMissing(t, func() {
		for _, l := range []Letter{leaves, dies} {
			if outcome, err := y.Discard(t.Context(), l.Sequence, operator); err != nil {
				t.Fatal(outcome, err)
			}
		}
		ack, err := y.js.Publish(t.Context(), dies.Subject, dies.Body) // handed over again
		if err != nil {
			t.Fatal(err)
		}
		m, err := y.queues.Stored(t.Context(), stream.Ref{Stream: stream.Reports, Sequence: ack.Sequence})
		if err != nil {
			t.Fatal(err)
		}
		y.bury(t, m, "no pages")
	})
	var deaths Deaths
	for _, l := range []Letter{leaves, dies} { // as if the acts had come after the letters were read
		deaths.Add(Death(l))
	}
	for key, err := range y.Missing(t.Context(), &deaths) {
		t.Errorf("missing %s, %v", key.Short(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got error
	for _, err := range y.Missing(ctx, &deaths) {
		got = err
	}
	if !errors.Is(got, context.Canceled) {
		t.Errorf("cancelled: %v", got)
	}
}
