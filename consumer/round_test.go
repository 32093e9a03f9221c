package consumer

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// watchOf is what a sweep remembers of a queue, over a consumer that does not run.
func (w *world) watchOf(queue string) *watch {
	w.Helper()
	return &watch{c: w.open().Consumer, queue: queue}
}

func (w *world) rounds(s *watch, n int) {
	w.Helper()
	for range n {
		if err := s.round(context.Background()); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) countLetters() (n int) {
	w.Helper()
	for _, err := range w.letters().List(context.Background(), dlq.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		n++
	}
	return n
}

// An orphan is buried in the second look, not in the first.
func TestRoundLooksTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.publish("A")
	w.exhaust(stream.Reports)
	s := w.watchOf(stream.Reports)
	w.rounds(s, 1)
	if got := w.countLetters(); got != 0 {
		t.Fatalf("%d letters after the first look, want none", got)
	}
	w.rounds(s, 1)
	w.check(invariant.Tally{Dead: 1})
}

// On replicated streams the looks must be far enough apart, also for a worker that has not been told of replicas.
func TestRoundLooksTwiceAtReplicas(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, js: natstest.StartCluster(t).JetStream(t), cfg: quick(), runs: map[string]int{}, outcomes: map[string][]Outcome{}}
	replicated := w.cfg.Queues
	replicated.Replicas = 3
	if err := Setup(t.Context(), w.js, replicated); err != nil {
		t.Fatal(err)
	}
	c, err := Open(t.Context(), w.js, w.handle, w.cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.publish("A")
	w.exhaust(stream.Reports)
	s := &watch{c: c, queue: stream.Reports}
	w.rounds(s, 3)
	if got := w.countLetters(); got != 0 {
		t.Fatalf("%d letters after looks at once, want none", got)
	}
	for seq, at := range s.looked {
		s.looked[seq] = at.Add(-interestCheck)
	}
	w.rounds(s, 1)
	w.check(invariant.Tally{Dead: 1})
}

// What is in somebody's hand or waits for its retry is no orphan, however often the sweep looks; one that an advisory names
// beside it is.
func TestRoundSparesWhatIsInWork(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = time.Hour
	w := newWorld(t, cfg, script{})
	w.publish("O")
	orphan := w.stored(stream.Reports)
	w.exhaust(stream.Reports)
	w.publish("A", "B")
	c, err := w.js.Consumer(t.Context(), stream.Reports, stream.Consumer)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.FetchNoWait(2)
	if err != nil {
		t.Fatal(err)
	}
	for msg := range batch.Messages() {
		if string(msg.Data()) == string(payload("B")) {
			if err := msg.NakWithDelay(time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := w.watchOf(stream.Reports)
	w.rounds(s, 5)
	if got := w.countLetters(); got != 0 {
		t.Fatalf("%d letters, want none: nothing proves that O is in nobody's hand", got)
	}
	s.advised(advisory(orphan.Ref.Sequence))
	s.advised(&nats.Msg{Data: []byte("no advisory")})
	s.advised(advisory(999)) // of a message that is gone
	w.rounds(s, 5)
	w.check(invariant.Tally{Waiting: 2, Dead: 1})
	if len(s.named) != 0 {
		t.Errorf("the sweep still remembers %v", s.named)
	}
}

// Parked reports are never touched: not below what was delivered, and not if an advisory names one beyond.
func TestRoundSparesParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"B": {succeed}})
	park := func(site string) uint64 {
		key := report.NewKey(site, uri(site))
		w.keys = append(w.keys, key)
		ack, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "reports.parked." + site + "." + string(key), Data: payload(site)},
			jetstream.WithScheduleAt(time.Now().Add(time.Hour)), jetstream.WithScheduleTarget("reports.requeued."+site+"."+string(key)))
		if err != nil {
			t.Fatal(err)
		}
		return ack.Sequence
	}
	before := park("A")
	w.requeue("B", stream.Carried{PublishedAt: time.Now()})
	w.start()
	w.await("B", Succeeded)
	w.awaitEmpty()
	w.stopAll()
	after := park("C")
	state, err := w.queues().State(t.Context(), stream.Requeued)
	if err != nil || state.Delivered <= before || state.Delivered >= after || state.Parked != 2 {
		t.Fatalf("queue is %+v (%v), want deliveries between the parked reports %d and %d", state, err, before, after)
	}
	s := w.watchOf(stream.Requeued)
	s.advised(advisory(before))
	s.advised(advisory(after))
	w.rounds(s, 5)
	w.check(invariant.Tally{Done: 1, Waiting: 2})
}

// A stream or consumer that was created anew counts from the start: what was known of old sequences says nothing.
func TestRoundForgetsWhatWasBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {succeed}})
	w.publish("A")
	w.exhaust(stream.Reports)
	s := w.watchOf(stream.Reports)
	s.advised(advisory(1))
	w.rounds(s, 1)
	if diff := cmp.Diff(1, len(s.looked)); diff != "" {
		t.Fatalf("candidates (-want +got):\n%s", diff)
	}
	if err := w.js.DeleteConsumer(t.Context(), stream.Reports, stream.Consumer); err != nil {
		t.Fatal(err)
	}
	if err := Setup(t.Context(), w.js, w.cfg.Queues); err != nil {
		t.Fatal(err)
	}
	w.rounds(s, 3)
	if got := w.countLetters(); got != 0 {
		t.Errorf("%d letters, want none: the new consumer will deliver the report", got)
	}
	w.start()
	w.check(invariant.Tally{Done: 1})
}

// While intake is paused the sweep does nothing, and time begins anew.
func TestRoundWaitsForIntake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.publish("A")
	w.exhaust(stream.Reports)
	s := w.watchOf(stream.Reports)
	w.rounds(s, 1)
	s.c.gate.shut()
	w.rounds(s, 3)
	if got := w.countLetters(); got != 0 || s.marks != nil {
		t.Errorf("%d letters and marks %v while intake is paused, want none", got, s.marks)
	}
	s.c.gate.open()
	w.rounds(s, 2)
	w.check(invariant.Tally{Dead: 1})
}

// While the consumer is paused nobody is given anything, however long ago its retry was due: no time counts.
func TestRoundWaitsForPausedConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {fail, succeed}})
	w.cfg.Backoff = report.Backoff{Base: time.Second, Max: time.Second}
	w.publish("A")
	w.start()
	w.await("A", Retried)
	if _, err := w.js.PauseConsumer(t.Context(), stream.Reports, stream.Consumer, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a pull to wait", func() bool { return w.pulling() > 0 })
	s := w.watchOf(stream.Reports)
	w.rounds(s, 1)
	for i := range s.marks { // an hour passes
		s.marks[i].at = s.marks[i].at.Add(-time.Hour)
	}
	w.rounds(s, 3)
	if got := w.countLetters(); got != 0 {
		t.Errorf("%d letters, want none: the server will deliver the report", got)
	}
	if _, err := w.js.ResumeConsumer(t.Context(), stream.Reports, stream.Consumer); err != nil {
		t.Fatal(err)
	}
	w.check(invariant.Tally{Done: 1})
}

func TestSettledBelow(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.MaxAttempts, cfg.Queues.AckWait = 4, 30*time.Second
	cfg.AttemptTimeout = time.Minute
	cfg.Backoff = report.Backoff{Base: time.Second, Max: 29 * time.Second, Jitter: time.Second}
	const horizon = 12 * time.Minute // six deliveries of two minutes each
	start := time.Now()
	type look struct {
		after     time.Duration
		delivered uint64
		inWork    uint64
		want      uint64
	}
	for name, looks := range map[string][]look{
		"nothing in work": {{0, 7, 0, 7}},
		"just begun":      {{0, 7, 1, 0}, {horizon, 9, 1, 0}},
		"over the horizon": {
			{0, 7, 1, 0}, {time.Minute, 8, 1, 0}, {horizon + time.Second, 20, 1, 7},
			{horizon + time.Minute + time.Second, 30, 1, 8}, {horizon + time.Minute + 2*time.Second, 30, 0, 30},
		},
		"long unseen": {{0, 7, 1, 0}, {time.Minute, 8, 1, 0}, {3 * horizon, 90, 1, 8}, {4*horizon + time.Second, 95, 1, 90}},
		"often":       {{0, 1, 1, 0}, {time.Second, 2, 1, 0}, {2 * time.Second, 3, 1, 0}, {horizon + time.Second, 9, 1, 1}, {horizon + 3*time.Second, 9, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &watch{c: &Consumer{cfg: cfg}}
			for i, l := range looks {
				got := s.settledBelow(stream.State{Delivered: l.delivered, InWork: l.inWork}, start.Add(l.after))
				if got != l.want {
					t.Errorf("look %d: settled below %d, want %d (marks %v)", i+1, got, l.want, s.marks)
				}
			}
		})
	}

	t.Run("bounded", func(t *testing.T) {
		s := &watch{c: &Consumer{cfg: cfg}}
		for i := range 10000 {
			s.settledBelow(stream.State{Delivered: uint64(i), InWork: 1}, start.Add(time.Duration(i)*time.Second))
		}
		if len(s.marks) > 70 {
			t.Errorf("%d marks are kept", len(s.marks))
		}
	})
}
