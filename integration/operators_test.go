package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// yard is a second operator's dead-letter queue, on a connection of its own.
func (w *world) yard() *dlq.Queue {
	w.Helper()
	js := w.srv.JetStream(w)
	ledger, err := keyvalue.OpenLedger(w.Context(), js)
	w.must(err)
	return dlq.New(js, stream.New(js, w.cfg.Queues), ledger, audit.New(js), dlq.DefaultReplayMax)
}

// burials publishes reports and waits until all are dead.
func (w *world) burials(n int) (dead []dlq.Letter) {
	w.Helper()
	for i := range n {
		w.publish("TWR-1", fmt.Sprint("s3://reports/", i, ".pdf"))
	}
	w.drain()
	for l, err := range w.letters.List(w.Context(), dlq.Filter{}) {
		w.must(err)
		dead = append(dead, l)
	}
	if len(dead) != n {
		w.Fatalf("%d reports are dead, want %d", len(dead), n)
	}
	return dead
}

// atOnce lets operators act on each letter at the same moment, a few letters at a time, and returns what each was told.
func atOnce(w *world, dead []dlq.Letter, acts ...func(context.Context, uint64, dlq.By) (dlq.Outcome, error)) [][]dlq.Outcome {
	told := make([][]dlq.Outcome, len(acts))
	few := make(chan struct{}, 6)
	var all sync.WaitGroup
	for i := range acts {
		told[i] = make([]dlq.Outcome, len(dead))
	}
	for n, l := range dead {
		few <- struct{}{}
		all.Go(func() {
			defer func() { <-few }()
			var both sync.WaitGroup
			for i, act := range acts {
				both.Go(func() {
					outcome, err := act(w.Context(), l.Sequence, operator)
					if err != nil {
						w.Errorf("operator %d, letter %d: %v", i, l.Sequence, err)
					}
					told[i][n] = outcome
				})
			}
			both.Wait()
		})
	}
	all.Wait()
	return told
}

// Two operators replay all letters at once while workers run: every report runs once more.
func TestTwoOperatorsReplayEverything(t *testing.T) {
	t.Parallel()
	const letters = 60
	w := newWorld(t, repaired)
	w.work()
	w.work()
	dead := w.burials(letters)
	told := atOnce(w, dead, w.letters.Replay, w.yard().Replay)
	w.drain()
	for i, l := range dead {
		w.lands(l.Key)
		w.wantRuns(l.Key, 2)
		for _, outcomes := range told {
			if o := outcomes[i]; o != dlq.Replayed && o != dlq.Recovered && o != dlq.Gone {
				t.Errorf("letter %d: an operator was told %q", l.Sequence, o)
			}
		}
	}
	w.ends(invariant.Tally{Done: letters})
}

// The same with reports that fail again at once. If one operator's copy is queued, worked and buried between two looks of
// the other's, that one's copy is taken as well: the report may run once more than was asked, and is dead all the same.
func TestTwoOperatorsReplayTheHopeless(t *testing.T) {
	t.Parallel()
	const letters = 30
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		return nil, report.Poison(report.CodeMalformedPDF, fmt.Errorf("failure %d", run))
	})
	w.work()
	w.work()
	dead := w.burials(letters)
	atOnce(w, dead, w.letters.Replay, w.yard().Replay)
	w.drain()
	for _, l := range dead {
		if n := w.ran(l.Key); n != 2 && n != 3 {
			t.Errorf("the handler ran %d times for %s, want 2 or 3", n, l.Key.Short())
		}
		if now := w.letter(l.Key); now.Replays != 1 || now.Sequence == l.Sequence || !now.FirstFailedAt.Equal(l.FirstFailedAt) {
			t.Errorf("letter %d has become %d with %d replays, first failed at %v", l.Sequence, now.Sequence, now.Replays, now.FirstFailedAt)
		}
	}
	w.ends(invariant.Tally{Dead: letters})
}

// One operator discards what another replays. Whoever wins, each report has a fate, and who was told that it
// was replayed is right.
func TestDiscardAgainstReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	w.work()
	dead := w.burials(30)
	told := atOnce(w, dead, w.letters.Discard, w.yard().Replay)
	w.drain()
	var want invariant.Tally
	for i, l := range dead {
		switch a := w.fate(l.Key); {
		case a.Fate == "done":
			want.Done++
		case a.Fate != "discarded":
			t.Errorf("letter %d: the operators were told %q and %q, and the fate is %s", l.Sequence, told[0][i], told[1][i], a.Fate)
		case told[1][i] == dlq.Replayed:
			t.Errorf("letter %d: an operator was told %q, but the report is discarded and was not run", l.Sequence, told[1][i])
			fallthrough
		default:
			want.Discarded++
		}
	}
	w.ends(want)
}

// capTrail sets the largest message that the audit trail takes; -1 is none.
func (w *world) capTrail(size int32) {
	w.Helper()
	s, err := w.js.Stream(w.Context(), audit.Stream)
	w.must(err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgSize = size
	_, err = w.js.UpdateStream(w.Context(), cfg)
	w.must(err)
}

// halfBuried is a report whose worker died between putting the letter and letting the message go: the trail would not
// take the death.
func (w *world) halfBuried(uri string) dlq.Letter {
	w.Helper()
	w.capTrail(1)
	key := w.publish("TWR-1", uri)
	worker := w.work()
	var l dlq.Letter
	natstest.Eventually(w, "the letter", func() bool {
		var err error
		l, err = w.letters.Current(w.Context(), "*", key)
		return err == nil
	})
	worker.kill()
	w.capTrail(-1)
	if s := w.queue(stream.Reports); s.Stored != 1 {
		w.Fatalf("%d messages are stored beside the letter, want 1", s.Stored)
	}
	return l
}

func TestDiscardOfAHalfBuriedReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	l := w.halfBuried("s3://reports/a.pdf")
	outcome, err := w.letters.Discard(t.Context(), l.Sequence, operator)
	if err != nil || outcome != dlq.Discarded {
		t.Fatalf("discard: %s, %v", outcome, err)
	}
	if n := w.stored(); n != 0 {
		t.Errorf("%d messages are stored, want none: the report would run again", n)
	}
	w.work()
	later := w.publish("TWR-1", "s3://reports/later.pdf")
	w.dies(later, 0)
	w.wantRuns(l.Key, 1)
	if a := w.fate(l.Key); a.Fate != "discarded" || a.Discarded.Actor != operator.Actor || a.Discarded.Reason != operator.Reason {
		t.Errorf("fate %s, %+v", a.Fate, a.Discarded)
	}
	if got := w.events(l.Key, audit.Death); len(got) != 1 {
		t.Errorf("the trail has %d deaths, want 1", len(got))
	}
	w.ends(invariant.Tally{Dead: 1, Discarded: 1})
}

func TestReplayOfAHalfBuriedReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	l := w.halfBuried("s3://reports/a.pdf")
	w.replay(l, dlq.Replayed)
	w.work()
	w.drain()
	w.wantRuns(l.Key, 2)
	w.wantEvents(l.Key, audit.Death, audit.Replay)
	w.ends(invariant.Tally{Done: 1})
}

// A copy that was handed back dies with its burial cut short: what is deleted is the copy.
func TestDiscardOfAHalfBuriedCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repaired)
	l := w.halfBuried("s3://reports/a.pdf")
	m, err := w.queues.Stored(t.Context(), l.Source)
	w.must(err)
	carried := stream.Carried{PublishedAt: m.PublishedAt, StandsFor: m.Identity, Attempts: 1}
	w.must(w.queues.Requeue(t.Context(), m.Site, m.Key, nil, m.Body, carried, 0))
	w.must(w.queues.Delete(t.Context(), m.Ref)) // as its ack would
	if outcome, err := w.letters.Discard(t.Context(), l.Sequence, operator); err != nil || outcome != dlq.Discarded {
		t.Fatalf("discard: %s, %v", outcome, err)
	}
	if n := w.stored(); n != 0 {
		t.Errorf("%d messages are stored, want none: the report would run again", n)
	}
	w.ends(invariant.Tally{Discarded: 1})
}
