package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
)

// ErrNotSetUp says that a stream or a consumer is missing; `guyline setup` creates it.
// ErrDrift says that a consumer's settings are not those of this worker.
var (
	ErrNotSetUp = errors.New("run `guyline setup` first")
	ErrDrift    = errors.New("consumer and worker disagree")
)

// Queues is the two queues on one server. It is safe for concurrent use.
type Queues struct {
	js  jetstream.JetStream
	cfg Config
}

// New returns the queues without asking the server.
func New(js jetstream.JetStream, cfg Config) *Queues { return &Queues{js, cfg} }

// Names lists the two streams.
func Names() []string { return []string{Reports, Requeued} }

// Worker returns the durable consumer of a queue after comparing it with the configuration. A consumer that
// does not exist is [ErrNotSetUp], one with other settings [ErrDrift].
func (q *Queues) Worker(ctx context.Context, name string) (jetstream.Consumer, error) {
	c, err := q.js.Consumer(ctx, name, Consumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("consumer %s of %s does not exist: %w", Consumer, name, ErrNotSetUp)
	case err != nil:
		return nil, fmt.Errorf("consumer %s of %s: %w", Consumer, name, err)
	}
	if drift := q.cfg.drift(c.CachedInfo().Config); len(drift) > 0 {
		return nil, fmt.Errorf("consumer %s of %s: %s: %w: use the same value everywhere, or run `guyline setup` with the new one",
			Consumer, name, strings.Join(drift, "; "), ErrDrift)
	}
	return c, nil
}

// State is what one queue holds at one moment.
type State struct {
	Stored    uint64       // messages in the stream
	Waiting   uint64       // not yet delivered
	InWork    uint64       // delivered: in work, or waiting for their retry
	Parked    uint64       // scheduled for later
	Stranded  uint64       // stored, but the server will never deliver it again; the sweep will bury it
	Pulling   int          // open pull requests of workers
	Paused    bool         // the consumer is: nothing is delivered, to nobody
	Oldest    time.Time    // when the oldest stored message was put, a copy as well; zero if none is
	Delivered uint64       // the highest sequence that was ever delivered
	Created   [2]time.Time // of stream and consumer: a change means that sequences have started anew
	Replicas  int          // of the stream
}

// State reads a queue. Stream and consumer are two reads, so under load the numbers can be off by what
// moved in between. Stranded is the least of two looks, a moment apart, and even so only a reason to look closer.
func (q *Queues) State(ctx context.Context, name string) (State, error) {
	st, err := q.state(ctx, name)
	if err != nil || st.Stranded == 0 {
		return st, err
	}
	select {
	case <-time.After(secondLook):
	case <-ctx.Done():
		return st, ctx.Err()
	}
	again, err := q.state(ctx, name)
	again.Stranded = min(st.Stranded, again.Stranded)
	return again, err
}

// secondLook is long enough for a consumer to notice what its stream has just stored.
const secondLook = 50 * time.Millisecond

func (q *Queues) state(ctx context.Context, name string) (State, error) {
	c, err := q.js.Consumer(ctx, name, Consumer)
	if err != nil {
		return State{}, fmt.Errorf("read consumer %s of %s: %w", Consumer, name, err)
	}
	s, err := q.js.Stream(ctx, name)
	if err != nil {
		return State{}, fmt.Errorf("read stream %s: %w", name, err)
	}
	info := c.CachedInfo()
	st := State{
		Stored: s.CachedInfo().State.Msgs, Waiting: info.NumPending, InWork: uint64(info.NumAckPending), Pulling: info.NumWaiting, Paused: info.Paused,
		Delivered: info.Delivered.Stream, Created: [2]time.Time{s.CachedInfo().Created, info.Created},
		Replicas: s.CachedInfo().Config.Replicas,
	}
	if st.Stored > 0 {
		st.Oldest = s.CachedInfo().State.FirstTime
	}
	if name == Requeued {
		with, err := s.Info(ctx, jetstream.WithSubjectFilter(parkedAll))
		if err != nil {
			return State{}, fmt.Errorf("read stream %s: %w", name, err)
		}
		for _, n := range with.State.Subjects {
			st.Parked += n
		}
	}
	if known := st.Waiting + st.InWork + st.Parked; st.Stored > known {
		st.Stranded = st.Stored - known
	}
	return st, nil
}

// Next reads, through the leader, the first stored message of a queue whose sequence is at least seq and that
// the queue's consumer would take: parked reports are passed over. There is none: [jsapi.ErrNotFound].
func (q *Queues) Next(ctx context.Context, name string, seq uint64) (Message, error) {
	subject := submittedAll
	if name == Requeued {
		subject = requeuedAll
	}
	raw, err := jsapi.Next(ctx, q.js, name, subject, seq)
	if err != nil {
		return Message{}, err
	}
	return ReadStored(name, raw), nil
}

// Copies yields the copies in REPORTS_REQUEUE, or the parked ones alone, in no promised order and quickly: any replica may answer, so one
// that has just come may be missing, and one that has just gone may be there.
func (q *Queues) Copies(ctx context.Context, parked bool) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		filter := ">"
		if parked {
			filter = parkedAll
		}
		var info *jetstream.StreamInfo
		s, err := q.js.Stream(ctx, Requeued)
		if err == nil {
			info, err = s.Info(ctx, jetstream.WithSubjectFilter(filter))
		}
		if err != nil {
			yield(Message{}, fmt.Errorf("read stream %s: %w", Requeued, err))
			return
		}
		for raw, err := range jsapi.Lasts(ctx, q.js, Requeued, slices.Collect(maps.Keys(info.State.Subjects))) {
			if err != nil {
				yield(Message{}, err)
				return
			}
			if !yield(ReadStored(Requeued, raw), nil) {
				return
			}
		}
	}
}

// Stored reads one message through the leader, or returns [jsapi.ErrNotFound].
func (q *Queues) Stored(ctx context.Context, ref Ref) (Message, error) {
	raw, err := jsapi.Get(ctx, q.js, ref.Stream, ref.Sequence)
	if err != nil {
		return Message{}, err
	}
	return ReadStored(ref.Stream, raw), nil
}

// Delete removes a message that is known to be dealt with. One that is gone already is no error.
func (q *Queues) Delete(ctx context.Context, ref Ref) error {
	if err := jsapi.Delete(ctx, q.js, ref.Stream, ref.Sequence); err != nil && !errors.Is(err, jsapi.ErrNotFound) {
		return err
	}
	return nil
}
