package bench

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
)

const submittedPrefix = "reports.submitted."

// sites is how many sites the reports come from.
const sites = 50

// backlog is the i-th message of a backlog. Each every-th is a report that was published a moment before; the queue does not see that, as it
// has an id of its own.
func backlog(i, every int) *nats.Msg {
	id := ""
	if every > 0 && i%every == every-1 {
		i, id = i-min(2, every-1), "again"
	}
	e := report.Event{SiteID: fmt.Sprintf("BENCH-%04d", i%sites), SourceURI: fmt.Sprintf("https://portal.example/inspections/2026/%08d.pdf", i)}
	body := fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q,"due":"2026-12-01T00:00:00Z",`+
		`"metadata":{"inspector":"j.doe","visit":%d,"kind":"annual","tags":["tower","guy"]}}`, e.SiteID, e.SourceURI, i)
	return &nats.Msg{
		Subject: submittedPrefix + string(report.NewToken(e.SiteID)),
		Header:  nats.Header{jetstream.MsgIDHeader: {string(e.Key()) + id}},
		Data:    body,
	}
}

// publish fills the queue.
func (l *lap) publish(ctx context.Context) error {
	_, err := publishAll(ctx, l.js.Conn(), func(yield func(*nats.Msg) bool) {
		for i := range l.reports {
			m := backlog(i, l.every)
			if l.how.limits {
				m.Subject = limitsPrefix + m.Subject[len(submittedPrefix):]
			}
			if !yield(m) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	s, err := l.js.Stream(ctx, l.queue())
	if err == nil && s.CachedInfo().State.Msgs != uint64(l.reports) {
		err = fmt.Errorf("%d messages are in %s, want %d", s.CachedInfo().State.Msgs, l.queue(), l.reports)
	}
	return err
}

// publishAll publishes messages with nats.go's own asynchronous publisher, 4,096 on their way at once, until one fails. It returns how many the
// server has acknowledged.
func publishAll(ctx context.Context, nc *nats.Conn, messages iter.Seq[*nats.Msg]) (int64, error) {
	var accepted atomic.Int64
	var failed atomic.Pointer[error]
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { failed.CompareAndSwap(nil, &err) }),
		jetstream.WithPublishAsyncAckHandler(func(jetstream.JetStream, *nats.Msg, *jetstream.PubAck) { accepted.Add(1) }))
	if err != nil {
		return 0, err
	}
	defer js.CleanupPublisher()
	for m := range messages {
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(stuck)); err != nil {
			return 0, err
		}
		if ctx.Err() != nil || failed.Load() != nil {
			break
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(stuck):
		return 0, fmt.Errorf("no answer for %v", stuck)
	}
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return accepted.Load(), nil
}
