package stream

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Glimpse is what a quick look at a queue shows of one message.
type Glimpse struct {
	Key  report.Key
	Due  time.Time // zero if there is no deadline
	from uint64    // see jsapi.Body
}

// Glimpses yields a glimpse of each message of a queue, parked ones included, quickly: any replica may answer. A message that is
// there all the while is not missed; one that is gone by now may be shown, and one may be shown twice.
func (q *Queues) Glimpses(ctx context.Context, name string) iter.Seq2[Glimpse, error] {
	return func(yield func(Glimpse, error) bool) {
		for b, err := range jsapi.Bodies(ctx, q.js, name) {
			if err != nil {
				yield(Glimpse{}, err)
				return
			}
			m := Read(Ref{}, "", nil, b.Data, time.Time{})
			if !yield(Glimpse{m.Key, m.Event.Due, b.From}, nil) {
				return
			}
		}
	}
}

// glimpsed bounds how far behind its glimpse a message can be.
const glimpsed = 512

// Submitted reads, through the leader, the message of REPORTS of which Glimpses gave a glimpse, or returns [jsapi.ErrNotFound].
func (q *Queues) Submitted(ctx context.Context, g Glimpse) (Message, error) {
	seq := g.from
	for range glimpsed {
		m, err := q.Next(ctx, Reports, seq)
		if err != nil || m.Key == g.Key {
			return m, err
		}
		seq = m.Ref.Sequence + 1
	}
	return Message{}, jsapi.ErrNotFound
}

// Find reads, through the leader, a message that stands for a report in either queue, or returns [jsapi.ErrNotFound]. The site
// may be "*". It looks through all of REPORTS, whose subjects do not tell one report of a site from another.
func (q *Queues) Find(ctx context.Context, site report.Token, key report.Key) (Message, error) {
	for g, err := range q.Glimpses(ctx, Reports) {
		if err != nil {
			return Message{}, err
		}
		if g.Key != key {
			continue
		}
		if m, err := q.Submitted(ctx, g); !errors.Is(err, jsapi.ErrNotFound) {
			return m, err
		}
	}
	return q.Copy(ctx, site, key)
}
