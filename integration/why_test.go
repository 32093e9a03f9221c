package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/reprocess"
	"github.com/guyline/guyline/stream"
)

// why tells a report's story, and checks that its sentences have the given parts in this order, and its events these names.
func (w *world) why(key report.Key, want fate.Fate, events string, parts ...string) fate.Story {
	w.Helper()
	s, err := w.finder.Why(w.Context(), "*", key)
	w.must(err)
	text := strings.Join(s.Sentences, " ")
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			w.Errorf("%s: no %q (in this order) in: %s", want, part, text)
		}
		rest = after
	}
	var got []string
	for _, l := range s.Events {
		got = append(got, l.What)
	}
	if s.Fate != want || strings.Join(got, " ") != events || s.Next == "" {
		w.Errorf("the story is of a report that is %s, with the events %v, and next %q; want %s with %s", s.Fate, got, s.Next, want, events)
	}
	return s
}

// The whole life of reports, as it is told at each of its stations.
func TestWhy(t *testing.T) {
	t.Parallel()
	inWork, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		switch {
		case e.SourceURI == "slow" && run == 1:
			close(inWork)
			<-release
		case e.SourceURI == "moody" && run < 8: // four failures; the replay fails three times, and lands at its last attempt
			return nil, report.Transient(report.CodeConnection, errors.New("refused"))
		case e.SiteID == "BAD":
			return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
		}
		return nil, nil
	})
	w.why(report.NewKey("NY", "never"), fate.Unknown, "", "Never handed over", "exactly as they were published")
	slow := w.publish("NY", "slow")
	w.why(slow, fate.Waiting, "published", "it was handed over at", "No worker has taken it yet", "No worker is asking for work")
	worker := w.work()
	<-inWork
	w.why(slow, fate.Waiting, "published", "it is in work")
	close(release)
	w.lands(slow)
	w.why(slow, fate.Done, "committed", "Landed at", "at the first attempt, worked by worker-1.")

	moody := w.publish("NY", "moody")
	l := w.dies(moody, 0)
	const exhausted = "published attempt_failed attempt_failed attempt_failed death"
	w.why(moody, fate.Dead, exhausted, "Not landed. It failed 4 times", "because the source refused or broke the connection. The last error: refused. It has waited")
	worker.stop()
	w.replay(l, dlq.Replayed)
	w.why(moody, fate.Waiting, exhausted+" replay", operator.Actor+" replayed it at", "with fresh attempts. Replayed once. No worker has taken it yet")
	w.work()
	w.lands(moody)
	w.why(moody, fate.Done, exhausted+" replay attempt_failed attempt_failed attempt_failed committed",
		"at attempt 4, worked by worker-2. Before that it failed 7 times, was dead once and was replayed once.")

	bad, moved := w.publish("BAD", "a.pdf"), w.publish("BAD", "b.pdf")
	l = w.dies(bad, 0)
	w.why(bad, fate.Dead, "published death", "It failed for good at", "because the file is damaged: no trailer. It has waited in the dead-letter queue for ")
	if outcome, err := w.letters.Discard(t.Context(), l.Sequence, operator); err != nil || outcome != dlq.Discarded {
		t.Fatalf("discard: %s, %v", outcome, err)
	}
	w.why(bad, fate.Discarded, "published death discard", "given up: "+operator.Actor+" discarded it", operator.Reason, "it failed once and was dead once")
	l = w.dies(moved, 0)
	outcome, corrected, err := w.letters.Repair(t.Context(), l.Sequence, "c.pdf", operator)
	if err != nil || outcome != dlq.Repaired {
		t.Fatalf("repair: %s, %v", outcome, err)
	}
	w.published = append(w.published, corrected)
	if s := w.why(moved, fate.Discarded, "published death repair", "for a corrected report: "+operator.Actor+" repaired it", operator.Reason); !strings.Contains(s.Next, "guyline why "+string(corrected)) {
		t.Errorf("next: %s", s.Next)
	}
	w.dies(corrected, 0)

	w.stop()
	desk := reprocess.New(w.queues, w.ledger, w.letters, w.trail)
	if _, err := desk.Reprocess(t.Context(), "NY", slow, reprocess.By{Actor: operator.Actor, Reason: "a corrected file"}); err != nil {
		t.Fatal(err)
	}
	w.why(slow, fate.Waiting, "reprocess published", operator.Actor+" had it reprocessed: a corrected file")
	w.work()
	w.lands(slow)
	w.drain()
	w.why(slow, fate.Done, "reprocess committed", "It took the place of an earlier result: "+operator.Actor)

	parked := w.park("NY", "parked", time.Now().Add(time.Hour))
	w.why(parked, fate.Waiting, "published", "parked. It goes back into the queue at", "UTC, in")
	w.ends(invariant.Tally{Done: 2, Waiting: 1, Dead: 1, Discarded: 2})
}

// A report whose reopening was cut short, one that was handed back, one in retry, and one that was replayed too often.
func TestWhyInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		switch e.SourceURI {
		case "retried":
			return nil, report.RetryAfter(time.Hour, report.CodeThrottled, errors.New("slow down"))
		case "cut":
			<-ctx.Done()
			return nil, ctx.Err()
		case "hopeless":
			return nil, report.Poison(report.CodeNotFound, errors.New("404"))
		}
		return nil, nil
	})
	w.cfg.Backoff.Max, w.cfg.StopGrace = time.Hour, 0
	done, retried, cut, hopeless := w.publish("NY", "done"), w.publish("NY", "retried"), w.publish("NY", "cut"), w.publish("NY", "hopeless")
	worker := w.work()
	w.lands(done)
	natstest.Eventually(t, "the others to be in hand", func() bool {
		return w.ran(cut) == 1 && len(w.events(retried, audit.AttemptFailed)) == 1 && len(w.settled(hopeless)) == 1
	})
	w.why(retried, fate.Waiting, "published attempt_failed", "Attempt 1 failed at", "(throttled): slow down. The next attempt is expected in", "minutes")
	worker.stop()
	w.why(cut, fate.Waiting, "published", "a worker that was stopped handed it back. That cost no attempt.")
	w.reopen(done)
	w.why(done, fate.Waiting, "", "nothing is in the queue for it", "cut short")

	l := w.letter(hopeless)
	l.Replays = dlq.DefaultReplayMax
	_, err := w.letters.Put(t.Context(), l, l.Sequence)
	w.must(err)
	if s := w.why(hopeless, fate.Dead, "published death", "Replayed 5 times: it is quarantined"); !strings.Contains(s.Next, "--force") {
		t.Errorf("next: %s", s.Next)
	}
	w.ends(invariant.Tally{Waiting: 3, Dead: 1})
}

// The clock of a dead letter starts when the report dies, however old its publication is.
func TestClockStartsAtDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	s, err := w.js.Stream(t.Context(), dlq.Stream)
	w.must(err)
	cfg := s.CachedInfo().Config
	cfg.MaxAge = time.Hour
	_, err = w.js.UpdateStream(t.Context(), cfg)
	w.must(err)
	key := w.requeue("BAD", "old.pdf", stream.Carried{PublishedAt: time.Now().Add(-30 * 24 * time.Hour)})
	w.work()
	l := w.dies(key, 0)
	w.why(key, fate.Dead, "published death", "It has waited in the dead-letter queue for ", "; the queue drops it in 59 minutes")
	m, err := s.GetMsg(t.Context(), l.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	if apart := m.Time.Sub(l.FailedAt); apart < 0 || apart > time.Minute {
		t.Errorf("the server counts the letter's age from %v, the report died at %v", m.Time, l.FailedAt)
	}
	w.ends(invariant.Tally{Dead: 1})
}

// Somebody has put something into the trail that is not an event, and it stays there for good. The report's story is told all the same.
func TestWhyBesideTheUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	key := w.publish("BAD", "a.pdf")
	worker := w.work()
	w.drain()
	worker.stop()
	_, err := w.js.Publish(t.Context(), "reports.audit.BAD."+string(key), []byte("hello"))
	w.must(err)
	w.why(key, fate.Dead, "published death", "Not landed.", "The audit trail also holds something about it, once, that is not an event")
	w.ended = true // what was garbled on purpose cannot be checked
}
