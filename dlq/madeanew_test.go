package dlq

import (
	"errors"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/stream"
)

// The queue was made anew, so that the same report dies at the same sequence again, of something else. It is another death, and its
// letter can be acted on.
func TestDeathInAQueueMadeAnew(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	first := y.die(t, "a.pdf")
	if err := y.js.DeleteStream(t.Context(), stream.Reports); err != nil {
		t.Fatal(err)
	}
	if err := stream.Setup(t.Context(), y.js, queueConfig); err != nil {
		t.Fatal(err)
	}
	m := y.publish(t, "a.pdf")
	if m.Ref != first.Source {
		t.Fatalf("it lies at %v, not at %v again", m.Ref, first.Source)
	}
	second := y.bury(t, m, "no pages")
	y.trailOf(t, second, audit.Death, audit.Death)
	if outcome, err := y.Discard(t.Context(), second.Sequence, operator); outcome != Discarded || err != nil {
		t.Errorf("discard: %s, %v", outcome, err)
	}
}

// The requeue stream was made anew, so that a replay gets the place of the message whose letter it replays, and it keeps the time of
// publication. It is another message all the same: nobody takes it for the rest of the burial.
func TestReplayInAQueueMadeAnew(t *testing.T) {
	t.Parallel()
	y, srv := newYard(t)
	y.replay(t, y.die(t, "a.pdf"), Replayed)
	l := y.bury(t, y.queued(t)[0], "no pages")
	if err := y.js.DeleteStream(t.Context(), stream.Requeued); err != nil {
		t.Fatal(err)
	}
	if err := stream.Setup(t.Context(), y.js, queueConfig); err != nil {
		t.Fatal(err)
	}
	y = interrupt(t, y, srv, "requeue", false, func(q *Queue) act { return q.Replay }, l)
	copied := y.queued(t)
	if len(copied) != 1 || copied[0].Ref != l.Source || !copied[0].PublishedAt.Equal(l.PublishedAt) {
		t.Fatalf("queued: %+v, want a copy at %v again", copied, l.Source)
	}
	if outcome, err := y.Discard(t.Context(), l.Sequence, operator); outcome != Busy || err != nil {
		t.Errorf("discard beside the copy: %q, %v", outcome, err)
	}
	if queued := y.queued(t); len(queued) != 1 {
		t.Fatalf("queued: %+v, want the copy", queued)
	}
	y.replay(t, l, Replayed)
	y.gone(t)
	y.bury(t, y.queued(t)[0], "still no pages")
	if l, err := y.Current(t.Context(), l.Site, l.Key); err != nil || l.Replays != 2 || l.Reason != "still no pages" {
		t.Errorf("the letter: %+v, %v", l, err)
	}
	y.sound(t, l, audit.Death, audit.Replay, audit.Death, audit.Replay, audit.Death)
}

// A settled report that was reopened lies in the requeue stream from the start, and its replay may get its place, too.
func TestReprocessedInAQueueMadeAnew(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	m := y.publish(t, "a.pdf")
	if err := y.queues.Delete(t.Context(), m.Ref); err != nil {
		t.Fatal(err)
	}
	if err := y.queues.Requeue(t.Context(), m.Site, m.Key, nil, m.Body, stream.Carried{PublishedAt: time.Now(), Reopened: 1}, 0); err != nil {
		t.Fatal(err)
	}
	l := y.bury(t, y.queued(t)[0], "no pages")
	if err := errors.Join(y.js.DeleteStream(t.Context(), stream.Requeued), stream.Setup(t.Context(), y.js, queueConfig)); err != nil {
		t.Fatal(err)
	}
	y.replay(t, l, Replayed)
	if again := y.bury(t, y.queued(t)[0], "still no pages"); again.Source != l.Source {
		t.Fatalf("it died at %v, not at %v again", again.Source, l.Source)
	}
	y.sound(t, l, audit.Death, audit.Replay, audit.Death)
}

// Deaths of replays that were recorded before events had the number are those of their letters all the same, also beside new ones.
func TestDeathsOfOlderVersions(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	y.replay(t, y.die(t, "a.pdf"), Replayed)
	m := y.queued(t)[0]
	l := y.put(t, letterOf(m, "no pages"))
	old := Death(l)
	old.Replays = 0
	if err := errors.Join(y.trail.Append(t.Context(), old), y.queues.Delete(t.Context(), m.Ref), y.RecordDeath(t.Context(), l)); err != nil {
		t.Fatal(err)
	}
	y.sound(t, l, audit.Death, audit.Replay, audit.Death)
	if err := errors.Join(y.js.DeleteStream(t.Context(), stream.Requeued), stream.Setup(t.Context(), y.js, queueConfig)); err != nil {
		t.Fatal(err)
	}
	y.replay(t, l, Replayed)
	if again := y.bury(t, y.queued(t)[0], "still no pages"); again.Source != l.Source {
		t.Fatalf("it died at %v, not at %v again", again.Source, l.Source)
	}
	y.sound(t, l, audit.Death, audit.Replay, audit.Death, audit.Replay, audit.Death)
}

// sound expects the kinds of a report's events, in order, and no finding about its letter or in the trail.
func (y yard) sound(t *testing.T, l Letter, want ...audit.Kind) {
	t.Helper()
	var deaths Deaths
	for _, e := range y.trailOf(t, l, want...) {
		if problem := deaths.Add(e); problem != "" {
			t.Errorf("event %s: %s", e.ID(), problem)
		}
	}
	if problem := y.verify(t)[l.Key]; problem != "" {
		t.Errorf("verify: %s", problem)
	}
}

// The dead-letter queue was made anew, so that the letter of another death gets the sequence of one on which somebody has acted. The
// death is recorded all the same.
func TestDeathInAYardMadeAnew(t *testing.T) {
	t.Parallel()
	for kind, act := range map[audit.Kind]func(testing.TB, yard, Letter){
		audit.Replay: func(t testing.TB, y yard, l Letter) { y.replay(t, l, Replayed) },
		audit.Discard: func(t testing.TB, y yard, l Letter) {
			if outcome, err := y.Discard(t.Context(), l.Sequence, operator); outcome != Discarded || err != nil {
				t.Fatal(outcome, err)
			}
			if _, err := y.js.Publish(t.Context(), l.Subject, l.Body); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			y, _ := newYard(t)
			first := y.die(t, "a.pdf")
			act(t, y, first)
			if err := y.js.DeleteStream(t.Context(), Stream); err != nil {
				t.Fatal(err)
			}
			if err := Setup(t.Context(), y.js, 1); err != nil {
				t.Fatal(err)
			}
			second := y.bury(t, y.queued(t)[0], "no pages")
			if second.Sequence != first.Sequence {
				t.Fatalf("the letter has the sequence %d, not %d again", second.Sequence, first.Sequence)
			}
			if events := y.trailOf(t, second, audit.Death, kind, audit.Death); events[len(events)-1].Hash != second.Hash {
				t.Errorf("the last event is %+v", events[len(events)-1])
			}
			if problem := y.verify(t)[second.Key]; problem != "" {
				t.Errorf("verify: %s", problem)
			}
		})
	}
}
