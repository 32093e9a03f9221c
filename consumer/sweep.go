package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

const (
	// interestCheck is how long a replicated stream may keep a message that was acked (server v2.15.3: 2.5 minutes).
	interestCheck = 160 * time.Second
	// sweptAtOnce bounds what one round of the sweep looks at in each queue.
	sweptAtOnce = 1000
	// comparedPerRound is how many letters one round compares with the ledger, comparedAtOnce how many together.
	comparedPerRound, comparedAtOnce = 10_000, 200
)

// sweep is the second net: every Config.Sweep it looks for messages that the server will never deliver
// again, and buries their reports. Such a message has used up its deliveries, even the spare ones, or is one that some
// client library swallows unseen: an empty body with a Status header. The sweep also closes letters whose report has landed.
func (c *Consumer) sweep(ctx context.Context) {
	watches := make([]*watch, 0, 2)
	for _, name := range stream.Names() {
		w := &watch{c: c, queue: name}
		subject := "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + name + "." + stream.Consumer
		sub, err := c.js.Conn().Subscribe(subject, w.advised)
		if err != nil { // the rounds find the same, later
			c.log.Warn("no advisories about used-up deliveries", "queue", name, "err", err)
		} else {
			defer sub.Unsubscribe()
		}
		watches = append(watches, w)
	}
	tick := time.NewTicker(c.cfg.Sweep)
	defer tick.Stop()
	for letter := uint64(1); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, w := range watches {
			if err := w.round(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("sweep: next round will try again", "queue", w.queue, "err", err)
			}
		}
		next, err := c.closeLanded(ctx, letter)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("sweep: next round will try again", "err", err)
		}
		letter = next
	}
}

// watch is what the sweep remembers of one queue between rounds.
type watch struct {
	c     *Consumer
	queue string

	created [2]time.Time         // of stream and consumer
	marks   []mark               // how far deliveries had come, oldest first
	looked  map[uint64]time.Time // when a candidate was first found stored

	mu    sync.Mutex
	named map[uint64]bool // by an advisory
}

type mark struct {
	delivered uint64
	at        time.Time
}

// advised remembers a message that has used up its deliveries. Advisories can be lost; they only hasten the sweep.
func (w *watch) advised(m *nats.Msg) {
	var advisory struct {
		Sequence uint64 `json:"stream_seq"`
	}
	if json.Unmarshal(m.Data, &advisory) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named == nil {
		w.named = map[uint64]bool{}
	}
	if len(w.named) < sweptAtOnce {
		w.named[advisory.Sequence] = true
	}
}

// round buries what was a candidate in an earlier round, long enough ago, and is one still.
func (w *watch) round(ctx context.Context) error {
	state, err := w.c.queues.State(ctx, w.queue)
	if err != nil || w.c.gate.isShut() || state.Pulling == 0 || state.Paused {
		// The time that proves a message forgotten counts only while intake runs and a pull is waiting: with none, messages
		// whose retry is due wait their turn, for however long all workers are busy. So they do while the consumer is paused.
		w.marks = nil
	}
	if err != nil || w.c.gate.isShut() {
		return err
	}
	if state.Created != w.created {
		w.restart(state.Created)
	}
	candidates, err := w.candidates(ctx, w.settledBelow(state, time.Now()))
	if err != nil {
		return err
	}
	apart := time.Duration(0)
	if state.Replicas > 1 { // what Config says is for setup, and a worker may not have been told
		apart = interestCheck
	}
	looked := map[uint64]time.Time{}
	for _, m := range candidates {
		first, before := w.looked[m.Ref.Sequence]
		if before && time.Since(first) >= apart {
			err := w.c.buryOrphan(ctx, m)
			if hopeless(err) {
				w.c.log.Error("ALARM: what is stored about a report cannot be read or trusted; it is left alone", "key", m.Key.Short(), "err", err)
			} else if err != nil {
				return err
			}
			continue
		}
		if !before {
			first = time.Now()
		}
		looked[m.Ref.Sequence] = first
	}
	w.looked = looked
	return nil
}

// restart forgets what was known of sequences that have started anew: the same number may be another message now, or one
// that will be delivered again. Advisories that came before the first round are kept.
func (w *watch) restart(created [2]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.created != [2]time.Time{} {
		w.named = nil
	}
	w.created, w.marks, w.looked = created, nil, nil
}

// settledBelow is the sequence up to which nothing stored can be in anybody's hand: everything that was ever delivered if
// nothing is in work, else what was delivered so long ago that all its deliveries are over.
func (w *watch) settledBelow(state stream.State, now time.Time) uint64 {
	cfg := w.c.cfg
	horizon := time.Duration(cfg.Queues.MaxAttempts+stream.SpareDeliveries) *
		(cfg.Queues.AckWait + cfg.AttemptTimeout + cfg.Backoff.Longest())
	if n := len(w.marks); n == 0 || now.Sub(w.marks[n-1].at) > horizon/64 {
		w.marks = append(w.marks, mark{state.Delivered, now})
	}
	var below uint64
	for len(w.marks) > 0 && now.Sub(w.marks[0].at) > horizon {
		below = w.marks[0].delivered
		if len(w.marks) == 1 || now.Sub(w.marks[1].at) <= horizon {
			break
		}
		w.marks = w.marks[1:]
	}
	if state.InWork == 0 {
		return state.Delivered
	}
	return below
}

// candidates reads, through the leader, what is stored up to a sequence, and what advisories have named.
func (w *watch) candidates(ctx context.Context, upTo uint64) ([]stream.Message, error) {
	var found []stream.Message
	for seq := uint64(1); seq <= upTo && len(found) < sweptAtOnce; {
		m, err := w.c.queues.Next(ctx, w.queue, seq)
		if errors.Is(err, jsapi.ErrNotFound) || err == nil && m.Ref.Sequence > upTo {
			break
		}
		if err != nil {
			return nil, err
		}
		found = append(found, m)
		seq = m.Ref.Sequence + 1
	}
	w.mu.Lock()
	var named []uint64
	for seq := range w.named {
		named = append(named, seq)
	}
	w.mu.Unlock()
	for _, seq := range named {
		m, err := w.c.queues.Stored(ctx, stream.Ref{Stream: w.queue, Sequence: seq})
		switch {
		case errors.Is(err, jsapi.ErrNotFound):
			w.mu.Lock()
			delete(w.named, seq)
			w.mu.Unlock()
		case err != nil:
			return nil, err
		case seq > upTo && !m.Parked():
			found = append(found, m)
		}
	}
	return found, nil
}

// buryOrphan takes a message that nobody will ever receive through rows 2, 3, 3b and 7c, and deletes it. It
// tries once: what is refused is left for the next round.
func (c *Consumer) buryOrphan(ctx context.Context, m stream.Message) error {
	verdict, attempts := c.abandoned(m), c.cfg.Queues.MaxAttempts
	switch {
	case m.Carried.Verdict != nil:
		verdict, attempts = *m.Carried.Verdict, m.Carried.Attempts
	case m.Invalid != nil:
		verdict, attempts = unreadable(m, time.Now()), 0
	}
	b, err := c.putLetter(ctx, m, func() bool { return true }, attempts, verdict)
	if err != nil {
		return err
	}
	if b.landed != nil || b.over {
		return c.queues.Delete(ctx, m.Ref)
	}
	letter := b.letter
	if err := c.recordDeath(ctx, letter); err != nil {
		return err
	}
	if err := c.queues.Delete(ctx, m.Ref); err != nil {
		return err
	}
	c.log.Warn("routed_to_dlq", "site", m.Event.SiteID, "key", m.Key.Short(), "class", letter.Class, "code", letter.Code,
		"attempt", letter.Attempts, "reason", letter.Reason, "hash", letter.Hash, "by", "sweep")
	c.due.warn(c, letter, time.Now())
	c.observe(Outcome{
		Kind: Buried, Key: m.Key, SiteID: m.Event.SiteID, Attempts: letter.Attempts, Class: letter.Class, Code: letter.Code, Reason: letter.Reason,
	})
	return nil
}

// closeLanded closes letters, from a sequence on, whose report has landed by another way, and returns where to go on. A
// bounded number per round: what it does not reach is dead and done at once, and counts as done.
func (c *Consumer) closeLanded(ctx context.Context, from uint64) (next uint64, err error) {
	s, err := c.js.Stream(ctx, dlq.Stream)
	if err != nil {
		return from, err
	}
	if s.CachedInfo().State.Msgs == 0 {
		c.due.forget()
		return 1, nil
	}
	letters := make([]dlq.Letter, 0, comparedAtOnce)
	seen := 0
	for l, err := range c.letters.List(ctx, dlq.Filter{From: from}) {
		if err != nil {
			return from, err
		}
		if letters = append(letters, l); len(letters) < comparedAtOnce {
			continue
		}
		if err := c.closeOf(ctx, letters); err != nil {
			return from, err
		}
		from = l.Sequence + 1
		if seen += len(letters); seen >= comparedPerRound {
			return from, nil
		}
		letters = letters[:0]
	}
	if err := c.closeOf(ctx, letters); err != nil {
		return from, err
	}
	c.due.forget()
	return 1, nil
}

// closeOf closes those of some letters whose report has landed. The ledger is asked for all at once, and any replica may answer: what
// it knows is looked at again, through the leader, and what it does not know yet comes with a later round.
func (c *Consumer) closeOf(ctx context.Context, letters []dlq.Letter) error {
	refs := make([]report.Ref, len(letters))
	for i, l := range letters {
		refs[i] = report.Ref{Site: l.Site, Key: l.Key}
	}
	answers, err := c.ledger.Answers(ctx, refs)
	if err != nil {
		return err
	}
	for _, l := range letters {
		closed := false
		if _, found := answers[l.Key]; found {
			closed, err = c.close(ctx, l.Sequence)
			switch {
			case hopeless(err): // of this one; the others are not concerned
				c.log.Error("ALARM: what is stored about a dead report cannot be read or trusted; its letter is left alone", "key", l.Key.Short(), "err", err)
			case err != nil:
				return err
			}
		}
		if !closed {
			c.due.warn(c, l, time.Now())
		}
	}
	return nil
}

// close closes a letter if its report has landed, and reports whether it is gone.
func (c *Consumer) close(ctx context.Context, letter uint64) (gone bool, err error) {
	l, err := c.letters.At(ctx, letter)
	if errors.Is(err, dlq.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return c.letters.Close(ctx, l, dlq.By{Actor: c.cfg.Worker, Reason: landed})
}
