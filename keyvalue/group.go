package keyvalue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/jsapi"
)

const (
	// mostGrouped bounds an atomic batch; the server takes 1,000 messages (v2.15.3).
	mostGrouped = 200
	// fewestGrouped is when a batch is worth its own costs, a file store that is made and removed (decision 15).
	fewestGrouped = 24
)

// group writes together what waits together: while one group is on its way, further writes gather, and go as the next. A server that syncs
// every write to the disk then does so once for a group, which it writes as an atomic batch (ADR-50): all of it or nothing. If it takes
// nothing, each is written on its own. There is one group on its way at any time.
type group struct {
	writes *writes

	mu      sync.Mutex
	busy    bool
	waiting []*member
}

// member is one write of a group. Its caller waits for a word on turn.
type member struct {
	subject  string
	value    []byte
	revision uint64
	turn     chan turn
}

// turn is what a member is to do: send the group, write on its own, or return the answer.
type turn struct {
	send  []*member // what it is to send, itself included
	alone *sync.WaitGroup
	seq   uint64
	err   error
}

// put is [writes.put]. Each request is bounded, and so is the number of those that wait.
func (g *group) put(subject string, value []byte, revision uint64) (uint64, error) {
	m := &member{subject, value, revision, make(chan turn, 1)}
	if mine := g.join(m); mine {
		return g.lead(m, []*member{m})
	}
	switch t := <-m.turn; {
	case t.send != nil:
		return g.lead(m, t.send)
	case t.alone != nil:
		defer t.alone.Done()
		return g.writes.put(context.Background(), subject, value, revision)
	default:
		return t.seq, t.err
	}
}

// join reports whether nothing is on its way: the member is a group of its own then. Otherwise it waits for the next.
func (g *group) join(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		g.waiting = append(g.waiting, m)
		return false
	}
	g.busy = true
	return true
}

// lead sends a group, tells its other members their answers and returns that of me. Then it lets the next group go.
func (g *group) lead(me *member, all []*member) (uint64, error) {
	defer g.next()
	ctx := context.Background() // each request is bounded
	if len(all) >= fewestGrouped {
		if last, err := g.batch(ctx, all); err == nil {
			var mine uint64
			for i, m := range all {
				seq := last - uint64(len(all)-1-i)
				if m == me {
					mine = seq
					continue
				}
				m.turn <- turn{seq: seq}
			}
			return mine, nil
		}
	}
	var others sync.WaitGroup
	for _, m := range all {
		if m != me {
			others.Add(1)
			m.turn <- turn{alone: &others}
		}
	}
	defer others.Wait()
	return g.writes.put(ctx, me.subject, me.value, me.revision)
}

// next lets what waits by now go as a group, which its first member sends.
func (g *group) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy = len(g.waiting) > 0; !g.busy {
		return
	}
	var all, later []*member
	subjects := make(map[string]bool, min(len(g.waiting), mostGrouped))
	for _, m := range g.waiting {
		if len(all) == mostGrouped || subjects[m.subject] { // a batch takes a subject once
			later = append(later, m)
			continue
		}
		subjects[m.subject] = true
		all = append(all, m)
	}
	g.waiting = later
	all[0].turn <- turn{send: all}
}

// batch writes a group as an atomic batch and returns the sequence of its last member; those of the others come right before it. After
// an error nothing of it is written, or all of it.
func (g *group) batch(ctx context.Context, all []*member) (uint64, error) {
	id := rand.Text()
	for i, m := range all {
		h := expecting(m.revision)
		h["Nats-Batch-Id"] = []string{id}
		h["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		msg := &nats.Msg{Subject: m.subject, Header: h, Data: m.value}
		if i == len(all)-1 {
			h["Nats-Batch-Commit"] = []string{"1"}
			return g.commit(ctx, msg, id, len(all))
		}
		if err := g.writes.nc.PublishMsg(msg); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// commit sends the last message of a batch. An answer that does not speak of the batch is of a server that knows none: it has looked at each
// message for itself, and told nobody what became of all but the last.
func (g *group) commit(ctx context.Context, last *nats.Msg, id string, n int) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, jsapi.Timeout)
	defer cancel()
	told, err := g.writes.nc.RequestMsgWithContext(ctx, last)
	if err != nil {
		return 0, err
	}
	seq, err := g.writes.read(told)
	if err != nil {
		return 0, err
	}
	var of struct {
		Batch string `json:"batch"`
		Count int    `json:"count"`
	}
	if json.Unmarshal(told.Data, &of) != nil || of.Batch != id || of.Count != n {
		return 0, fmt.Errorf("the server does not take %d writes at once: it answers %.100q", n, told.Data)
	}
	return seq, nil
}
