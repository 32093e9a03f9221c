package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// exhaust uses up every delivery of what a queue holds, as workers that never settle would. Nobody listens to the advisories.
func (w *world) exhaust(queue string) {
	w.Helper()
	w.useUp(queue, func() bool {
		s, err := w.queues().State(context.Background(), queue)
		return err == nil && s.Waiting == 0 && s.InWork == 0
	})
}

// useUp takes deliveries from a queue and gives them back at once, until done.
func (w *world) useUp(queue string, done func() bool) {
	w.Helper()
	c, err := w.js.Consumer(context.Background(), queue, stream.Consumer)
	if err != nil {
		w.Fatal(err)
	}
	natstest.Eventually(w, "every delivery to be used up", func() bool {
		batch, err := c.FetchNoWait(100)
		if err != nil {
			return false
		}
		for msg := range batch.Messages() {
			if err := msg.Nak(); err != nil {
				w.Fatal(err)
			}
		}
		return done()
	})
}

// putLetter puts a dead letter about a message, as a worker that died right after would have.
func (w *world) putLetter(m stream.Message, class report.Class, reason string) dlq.Letter {
	w.Helper()
	l := dlq.Letter{
		Key: m.Key, Site: m.Site, Class: class, Code: report.CodeNotAPDF, Reason: reason, Hash: report.AuditHash(m.Key, reason),
		Attempts: 2, Subject: m.Subject, Source: m.Identity, PublishedAt: m.PublishedAt, FailedAt: time.Now().UTC(), Body: m.Body,
	}
	if _, err := w.letters().Put(context.Background(), l, 0); err != nil {
		w.Fatal(err)
	}
	l, err := w.letters().Current(context.Background(), m.Site, m.Key)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// commit settles a report, as another worker would have.
func (w *world) commit(site string) {
	w.Helper()
	e := keyvalue.Entry{State: keyvalue.Done, SiteID: site, SourceURI: uri(site), Result: report.Result(`{}`), Attempts: 1, Worker: "other/1"}
	if _, err := w.ledger().Commit(context.Background(), e); err != nil {
		w.Fatal(err)
	}
}

// What had used up its deliveries before this worker began is found without an advisory, and gets the fate that rows 2 to 4
// give it.
func TestSweepBuriesOrphans(t *testing.T) {
	t.Parallel()
	const reason = "exhausted 4 attempts: 503"
	for name, tt := range map[string]struct {
		queue string
		seed  func(*world)
		want  invariant.Tally
		site  string
		dead  dlq.Letter
	}{
		"abandoned": {
			queue: stream.Reports,
			seed:  func(w *world) { w.publish("A") },
			want:  invariant.Tally{Dead: 1},
			dead: dlq.Letter{Class: report.ClassAbandoned, Code: report.CodeAbandoned, Attempts: 4,
				Reason: "abandoned: 4 of 4 deliveries ended without a verdict, as if the worker had died"},
		},
		"undecodable": {
			queue: stream.Reports,
			seed:  func(w *world) { w.publishRaw("A", nil, []byte(`{"site_id":`)) },
			want:  invariant.Tally{Dead: 1},
			dead: dlq.Letter{Class: report.ClassPoison, Code: report.CodeUndecodable,
				Reason: "undecodable event: it is not JSON: it is empty or cut off"},
		},
		"done meanwhile": {
			queue: stream.Reports,
			seed: func(w *world) {
				w.publish("A")
				w.commit("A")
			},
			want: invariant.Tally{Done: 1},
		},
		"burial cut short": {
			queue: stream.Reports,
			seed: func(w *world) {
				w.publish("A")
				w.putLetter(w.stored(stream.Reports), report.ClassPoison, "not a PDF")
			},
			want: invariant.Tally{Dead: 1},
			dead: dlq.Letter{Class: report.ClassPoison, Code: report.CodeNotAPDF, Attempts: 2, Reason: "not a PDF"},
		},
		"verdict carried": {
			queue: stream.Requeued,
			seed: func(w *world) {
				w.requeue("A", stream.Carried{
					Attempts: 4, StandsFor: stream.Ref{Stream: stream.Reports, Sequence: 1}, PublishedAt: time.Now(),
					Verdict: &stream.Verdict{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: reason, FailedAt: time.Now()},
				})
			},
			want: invariant.Tally{Dead: 1},
			dead: dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Attempts: 4, Reason: reason},
		},
		"verdict carried, letter abandoned": {
			queue: stream.Requeued,
			seed: func(w *world) {
				w.requeue("A", stream.Carried{
					Attempts: 4, StandsFor: stream.Ref{Stream: stream.Reports, Sequence: 1}, PublishedAt: time.Now(),
					Verdict: &stream.Verdict{Class: report.ClassExhausted, Code: report.CodeServerError, Reason: reason, FailedAt: time.Now()},
				})
				w.putLetter(w.stored(stream.Requeued), report.ClassAbandoned, "abandoned")
			},
			want: invariant.Tally{Dead: 1},
			dead: dlq.Letter{Class: report.ClassExhausted, Code: report.CodeServerError, Attempts: 4, Reason: reason},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quick(), script{}) // the handler must not run
			tt.seed(w)
			w.exhaust(tt.queue)
			if s, err := w.queues().State(t.Context(), tt.queue); err != nil || s.Stranded != 1 {
				t.Fatalf("queue is %+v (%v), want one stranded", s, err)
			}
			w.start()
			w.check(tt.want)
			if tt.want.Dead > 0 {
				w.checkLetterOf(w.keys[0], tt.dead)
			} else if got := w.events(w.keys[0], audit.Death); len(got) > 0 {
				t.Errorf("the trail has deaths %+v, want none", got)
			}
		})
	}
}

// requeue puts a copy of a report into the requeue stream.
func (w *world) requeue(site string, c stream.Carried) {
	w.Helper()
	key := report.NewKey(site, uri(site))
	if err := w.queues().Requeue(context.Background(), report.NewToken(site), key, nil, payload(site), c, 0); err != nil {
		w.Fatal(err)
	}
	w.keys = append(w.keys, key)
}

// While something is in work only an advisory can name an orphan; what is in work is left alone.
func TestSweepFollowsAdvisories(t *testing.T) {
	t.Parallel()
	cfg := steady()
	cfg.Workers = 1 // it is held, so that the orphan's deliveries go elsewhere
	release := make(chan struct{})
	w := newWorld(t, cfg, script{"A": {func(ctx context.Context) (report.Result, error) {
		<-release
		return succeed(ctx)
	}}})
	w.publish("A")
	k := w.start()
	natstest.Eventually(t, "the handler to run", func() bool { return w.ran("A") == 1 && w.pulling() == 0 })
	advisories := w.attempted("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.REPORTS.workers")
	w.publish("O")
	w.useUp(stream.Reports, func() bool { return advisories.Load() > 0 })
	w.await("O", Buried)
	if w.saw("A", Succeeded) > 0 || len(k.hand.all()) != 1 {
		t.Error("A is not in work any more; the advisory was not needed")
	}
	close(release)
	w.check(invariant.Tally{Done: 1, Dead: 1})
	if got := w.entry("A").Attempts; got != 1 {
		t.Errorf("A took %d attempts, want 1", got)
	}
}

// A letter whose report has landed by another way is closed as recovered.
func TestSweepClosesLandedLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"B": {poison}})
	w.publish("A", "B")
	m := w.stored(stream.Reports)
	l := w.putLetter(m, report.ClassPoison, "not a PDF")
	w.commit("A")
	w.start()
	natstest.Eventually(t, "the letter to be closed", func() bool {
		_, err := w.letters().Current(context.Background(), m.Site, m.Key)
		return err != nil
	})
	w.check(invariant.Tally{Done: 1, Dead: 1})
	got := w.events(m.Key, audit.Recovered)
	if len(got) != 1 || got[0].Letter != l.Sequence || got[0].Hash != l.Hash {
		t.Errorf("the trail has %+v, want letter %d recovered", got, l.Sequence)
	}
	if diff := cmp.Diff("no trailer", w.letter("B").Reason); diff != "" {
		t.Error(diff)
	}
}

// However many letters there are, each is compared with the ledger, and a round can begin in the middle.
func TestSweepComparesManyLetters(t *testing.T) {
	t.Parallel()
	const letters = comparedAtOnce + 50
	cfg := quick()
	cfg.Sweep = time.Hour // the rounds are those below
	w := newWorld(t, cfg, script{})
	var sites []string
	for i := range letters {
		site := fmt.Sprint("R", i)
		w.script[site] = []run{poison}
		sites = append(sites, site)
	}
	w.publish(sites...)
	k := w.start()
	w.awaitEmpty()
	all := slices.Collect(func(yield func(dlq.Letter) bool) {
		for l, err := range w.letters().List(t.Context(), dlq.Filter{}) {
			if err != nil || !yield(l) {
				return
			}
		}
	})
	if len(all) != letters {
		t.Fatalf("there are %d letters, want %d", len(all), letters)
	}
	first, last := all[0], all[letters-1]
	w.commit(first.SiteID())
	w.commit(last.SiteID())
	for _, round := range []struct{ from, closed uint64 }{{last.Sequence, last.Sequence}, {1, first.Sequence}} {
		if next, err := k.closeLanded(t.Context(), round.from); next != 1 || err != nil {
			t.Errorf("a round from %d goes on at %d, %v", round.from, next, err)
		}
		if _, err := w.letters().At(t.Context(), round.closed); !errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("letter %d is not closed by the round from %d: %v", round.closed, round.from, err)
		}
		if _, err := w.letters().At(t.Context(), first.Sequence); round.from > 1 && err != nil {
			t.Errorf("the round from %d has looked at letter %d: %v", round.from, first.Sequence, err)
		}
	}
	w.check(invariant.Tally{Done: 2, Dead: letters - 2})
}

func advisory(seq uint64) *nats.Msg {
	data, err := json.Marshal(map[string]uint64{"stream_seq": seq})
	if err != nil {
		panic(err)
	}
	return &nats.Msg{Data: data}
}
