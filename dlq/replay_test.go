package dlq

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	m := y.publish(t, "a.pdf")
	l := letterOf(m, "unparseable")
	l.Replays, l.Reopened, l.Attempts, l.Due = 2, 9, 4, time.Now()
	l.FirstFailedAt = l.FailedAt.Add(-time.Hour)
	l = y.put(t, l)
	if err := errors.Join(y.RecordDeath(t.Context(), l), y.queues.Delete(t.Context(), m.Ref)); err != nil {
		t.Fatal(err)
	}
	y.replay(t, l, Replayed)
	y.gone(t)

	queued := y.queued(t)
	if len(queued) != 1 {
		t.Fatalf("%d messages are queued, want 1", len(queued))
	}
	c := queued[0]
	if c.Subject != "reports.requeued.TWR=201."+string(l.Key) || !bytes.Equal(c.Body, m.Body) {
		t.Errorf("queued on %s: %q, want %q", c.Subject, c.Body, m.Body)
	}
	ours, want := nats.Header{}, nats.Header{
		"X-Firm": {"Åcme"}, report.HeaderReplays: {"3"}, report.HeaderReplayOf: {fmt.Sprint(l.Sequence)}, report.HeaderReopened: {"9"},
		report.HeaderPublishedAt: {report.FormatTime(m.PublishedAt)}, report.HeaderFirstFailedAt: {report.FormatTime(l.FirstFailedAt)},
	}
	for name, values := range c.Header {
		if !strings.HasPrefix(name, "Nats-Expected-") { // the fence
			ours[name] = values
		}
	}
	if !cmp.Equal(ours, want) {
		t.Errorf("headers: %s", cmp.Diff(want, ours))
	}
	if !c.PublishedAt.Equal(m.PublishedAt) || c.Identity != c.Ref || c.Carried.Verdict != nil {
		t.Errorf("read back: %+v", c)
	}

	events := y.trailOf(t, l, audit.Death, audit.Replay)
	act := events[1]
	if act.Time.Before(l.FailedAt) || act.Time.After(time.Now()) {
		t.Errorf("the replay is recorded at %v", act.Time)
	}
	act.Time = time.Time{}
	if want := (audit.Event{
		Kind: audit.Replay, Key: l.Key, SiteID: "TWR 1", Actor: operator.Actor, Reason: operator.Reason, Hash: l.Hash, Letter: l.Sequence,
		Payload: report.PayloadHash(l.Body),
	}); !cmp.Equal(act, want) {
		t.Error(cmp.Diff(want, act))
	}
	y.replay(t, l, Gone)
}

// Who acts and why is one clean line.
func TestByIsCleaned(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.die(t, "a.pdf")
	by := By{Actor: "ada\n" + strings.Repeat("x", 999), Reason: "see https://ada:secret@host/a?token=1\r\n"}
	if _, err := y.Replay(t.Context(), l.Sequence, by); err != nil {
		t.Fatal(err)
	}
	if e := y.trailOf(t, l, audit.Death, audit.Replay)[1]; e.Reason != "see https://host/a" || len(e.Actor) != report.MaxHeaderValue || e.Actor[:5] != "ada x" {
		t.Errorf("recorded %q by %q", e.Reason, e.Actor)
	}
}

// Inside the duplicate window of the queue the report really is queued and delivered, as often as it dies.
func TestReplayInsideDuplicateWindow(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.die(t, "a.pdf")
	for n := range 3 {
		y.replay(t, l, Replayed)
		worker, err := y.queues.Worker(t.Context(), stream.Requeued)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := worker.Fetch(1)
		if err != nil {
			t.Fatal(err)
		}
		d := <-batch.Messages()
		if d == nil {
			t.Fatalf("replay %d: nothing is delivered, %v", n+1, batch.Error())
		}
		meta, err := d.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		m := stream.Read(stream.Ref{Stream: stream.Requeued, Sequence: meta.Sequence.Stream}, d.Subject(), d.Headers(), d.Data(), meta.Timestamp)
		if m.Key != l.Key || m.Carried.Replays != n+1 {
			t.Fatalf("replay %d: delivered %+v", n+1, m)
		}
		l = y.bury(t, m, "again")
	}
	y.trailOf(t, l, audit.Death, audit.Replay, audit.Death, audit.Replay, audit.Death, audit.Replay, audit.Death)
}

func TestReplayOfReplaced(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	old := y.die(t, "a.pdf")
	l := y.put(t, old)
	y.replay(t, old, Gone)
	y.replay(t, Letter{Sequence: 99}, Gone)
	y.replay(t, Letter{}, Gone)
	if len(y.queued(t)) != 0 {
		t.Errorf("queued: %+v", y.queued(t))
	}
	if _, err := y.At(t.Context(), l.Sequence); err != nil {
		t.Errorf("the newer letter: %v", err)
	}
	y.trailOf(t, l, audit.Death)
}

func TestReplayRecovered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what     string
		entry    keyvalue.State
		reopened uint64 // carried by the letter; the entry has revision 1
		want     Outcome
	}{
		{"reopened", keyvalue.Reopened, 0, Replayed},
		{"done, but reopened since", keyvalue.Done, 1, Replayed},
		{"done", keyvalue.Done, 0, Recovered},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			y, _ := newYard(t)
			m := y.publish(t, "a.pdf")
			l := letterOf(m, "unparseable")
			l.Reopened = tt.reopened
			l = y.put(t, l)
			rev, err := y.ledger.Commit(t.Context(), keyvalue.Entry{State: tt.entry, SiteID: "TWR 1", SourceURI: "a.pdf"})
			if err != nil || rev != 1 {
				t.Fatal(rev, err)
			}
			y.replay(t, l, tt.want)
			y.gone(t)
			queued := y.queued(t)
			if tt.want == Recovered {
				if len(queued) != 0 {
					t.Errorf("queued: %+v", queued)
				}
				y.trailOf(t, l, audit.Death, audit.Recovered)
				return
			}
			if len(queued) != 1 || queued[0].Carried.ReplayOf != l.Sequence || queued[0].Carried.Reopened != tt.reopened {
				t.Errorf("queued: %+v", queued)
			}
			y.trailOf(t, l, audit.Death, audit.Replay)
		})
	}
}

// Another copy of the report is in the queue: the letter stays as it is until that copy is settled.
func TestReplayBusy(t *testing.T) {
	t.Parallel()
	for what, queue := range map[string]func(testing.TB, yard, Letter){
		"requeued": func(t testing.TB, y yard, l Letter) {
			err := y.queues.Requeue(t.Context(), l.Site, l.Key, nil, l.Body, stream.Carried{PublishedAt: l.PublishedAt.Add(1), ReplayOf: l.Sequence + 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
		},
		"parked": func(t testing.TB, y yard, l Letter) {
			_, err := y.js.Publish(t.Context(), "reports.parked."+string(l.Site)+"."+string(l.Key), l.Body, jetstream.WithScheduleAt(time.Now().Add(time.Hour)),
				jetstream.WithScheduleTarget("reports.requeued."+string(l.Site)+"."+string(l.Key)))
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			y, _ := newYard(t)
			l := y.die(t, "a.pdf")
			queue(t, y, l)
			before := y.queued(t)
			y.replay(t, l, Busy)
			if got := y.queued(t); len(got) != 1 || got[0].Ref != before[0].Ref {
				t.Errorf("queued: %+v, want %+v", got, before)
			}
			got, err := y.At(t.Context(), l.Sequence)
			if err != nil || !cmp.Equal(got, l) {
				t.Errorf("the letter: %v %s", err, cmp.Diff(l, got))
			}
			if err := y.queues.Delete(t.Context(), before[0].Ref); err != nil {
				t.Fatal(err)
			}
			y.replay(t, l, Replayed)
			y.gone(t)
		})
	}
}

// Two operators replay the same letters: each report is queued once, and no letter is left.
func TestReplayByTwo(t *testing.T) {
	t.Parallel()
	a, srv := newYard(t)
	b := enter(t, srv)
	var letters []Letter
	for i := range 50 {
		letters = append(letters, a.die(t, fmt.Sprint(i)))
	}
	var wg sync.WaitGroup
	start := make(chan struct{})
	outcomes := [2][50]Outcome{}
	for who, y := range []yard{a, b} {
		wg.Go(func() {
			<-start
			for i, l := range letters {
				var err error
				if outcomes[who][i], err = y.Replay(t.Context(), l.Sequence, operator); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	a.gone(t)
	queued := map[report.Key]int{}
	for _, m := range a.queued(t) {
		queued[m.Key]++
	}
	for i, l := range letters {
		if queued[l.Key] != 1 {
			t.Errorf("letter %d is queued %d times", i, queued[l.Key])
		}
		for who := range 2 {
			mine, other := outcomes[who][i], outcomes[1-who][i]
			if mine != Replayed && (mine != Gone || other != Replayed) {
				t.Errorf("letter %d: %q for one operator and %q for the other", i, mine, other)
			}
		}
		a.trailOf(t, l, audit.Death, audit.Replay)
	}
}
