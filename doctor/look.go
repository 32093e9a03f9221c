package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/stream"
)

// patience bounds each request: what is denied is never answered.
const patience = 3 * time.Second

// ErrBlind says that nothing could be read.
var ErrBlind = errors.New("nothing could be read")

// Look reads the facts of the server that js is connected to. denied returns what the connection's error handler has heard, see
// [Denial]. The servers of GUYLINE_NATS_URL and the disk of an embedded store are not its business: they stay as they are in have.
//
// It returns an error only if it could not look at all: [ErrBlind], or that there is no JetStream.
func Look(ctx context.Context, js jetstream.JetStream, have Facts, denied func() []Denied) (Facts, error) {
	f := have
	f.Streams = f.streams()
	var mu sync.Mutex
	failed := map[string]error{}
	fail := func(where string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed[where] = err
	}
	var all sync.WaitGroup
	for i := range f.Streams {
		all.Go(func() { lookAt(ctx, js, &f.Streams[i], fail) })
	}
	var noJetStream error
	all.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var err error
		if f.Account, err = js.AccountInfo(ctx); errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			noJetStream = err
		}
	})
	all.Go(func() { probe(ctx, js) })
	if f.Store == nil {
		all.Go(func() { f.Sync = syncs(ctx, js.Conn()) })
	}
	all.Wait()
	if noJetStream != nil {
		return f, noJetStream
	}
	if ctx.Err() != nil {
		return f, ctx.Err()
	}
	f.Denied = denied()
	var kept []Stream
	for _, s := range f.Streams {
		if err := failed[s.Want.Name]; err == nil {
			kept = append(kept, s)
		} else {
			f.Unread = append(f.Unread, Unread{s.Want.Name, err.Error()})
		}
		if err := failed[where(s)]; err != nil {
			f.Unread = append(f.Unread, Unread{where(s), err.Error()})
		}
	}
	if len(kept) == 0 {
		return f, fmt.Errorf("%w: %s: %w", ErrBlind, f.Unread[0].Where, failed[f.Unread[0].Where])
	}
	f.Streams = kept
	f.Work = work(ctx, stream.New(js, f.Queues), kept)
	return f, nil
}

// lookAt reads one stream and, if it is a queue, its consumers.
func lookAt(ctx context.Context, js jetstream.JetStream, s *Stream, fail func(string, error)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before := time.Now()
	got, err := js.Stream(ctx, s.Want.Name)
	took := time.Since(before)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s.Holder, _ = js.StreamNameBySubject(ctx, s.Want.Subjects[0])
		return
	case err != nil:
		fail(s.Want.Name, err)
		return
	}
	s.Have = got.CachedInfo()
	s.Skew = skew(s.Have.TimeStamp, before, took)
	if s.Consumer == nil {
		return
	}
	expected := 0
	c, err := got.Consumer(ctx, stream.Consumer)
	switch {
	case err == nil:
		s.Consumer.Have, expected = c.CachedInfo(), 1
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		push, err := got.PushConsumer(ctx, stream.Consumer)
		if err != nil {
			fail(where(*s), err)
			s.Consumer = nil
			return
		}
		s.Consumer.Have, expected = push.CachedInfo(), 1
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		fail(where(*s), err)
		s.Consumer = nil
		return
	}
	if s.Have.State.Consumers > expected { // else the list, which needs one more permission, tells nothing new
		for name := range got.ConsumerNames(ctx).Name() {
			if name != stream.Consumer {
				s.Others = append(s.Others, name)
			}
		}
	}
}

// skew is how far a server's clock is ahead. It was read at some time within the time that the answer took, and gets the benefit of that.
func skew(server, before time.Time, took time.Duration) time.Duration {
	switch {
	case server.IsZero():
		return 0
	case server.Before(before):
		return server.Sub(before)
	case server.After(before.Add(took)):
		return server.Sub(before.Add(took))
	}
	return 0
}

// work counts what the queues hold, if they and their consumers are there. It looks a few times before it says that no worker is
// pulling, as there is a moment between two pulls.
func work(ctx context.Context, queues *stream.Queues, streams []Stream) *Work {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, s := range streams {
		if s.role <= requeue && (s.Have == nil || s.Consumer == nil || s.Consumer.Have == nil) {
			return nil
		}
	}
	for try := 0; ; try++ {
		w := &Work{}
		for _, name := range stream.Names() {
			st, err := queues.State(ctx, name)
			if err != nil {
				return nil
			}
			w.Waiting += st.Waiting
			w.InWork += st.InWork
			w.Stranded += st.Stranded
			w.Pulling += st.Pulling
		}
		if w.Pulling > 0 || try == 3 {
			return w
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return w
		}
	}
}

// syncs asks the servers how they write. They answer only accounts that import $SYS.REQ.SERVER.PING.VARZ from the system account.
func syncs(ctx context.Context, nc *nats.Conn) (found []Sync) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest("$SYS.REQ.SERVER.PING.VARZ", inbox, nil); err != nil {
		return nil
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return found
		}
		var answer struct {
			Data struct {
				Name      string `json:"server_name"`
				JetStream struct {
					Config *struct {
						Always   bool          `json:"sync_always"`
						Interval time.Duration `json:"sync_interval"`
					} `json:"config"`
				} `json:"jetstream"`
			} `json:"data"`
		}
		if json.Unmarshal(m.Data, &answer) != nil || answer.Data.JetStream.Config == nil {
			continue
		}
		c := answer.Data.JetStream.Config
		found = append(found, Sync{answer.Data.Name, c.Always, c.Interval})
	}
}
