// Package books reads where every report stands, from outside: it asks the streams themselves, and believes no count that a worker
// keeps. The invariant of the tests and the harness of package chaos are both made of it.
package books

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Books is what the queues, the letters, the ledger and the trail hold.
type Books struct {
	Queued   map[report.Key]int              // messages in either queue, parked ones too
	Letters  map[report.Key][]dlq.Letter     // whole
	Entries  map[report.Key][]keyvalue.Entry // done or reopened
	Acts     map[report.Key]audit.Event      // the newest event that can give a report up, or call it back
	Deaths   map[report.Key][]audit.Event    // in order
	Closed   map[report.Key]bool             // a letter was closed because its report had landed
	Problems map[report.Key][]string         // letters that do not verify, keys that do not fit
}

// Fates is in how many places a report stands. Exactly one of the four is 1 if the promise holds.
type Fates struct{ Done, Waiting, Dead, Discarded int }

// Sum is 1 if the promise holds.
func (f Fates) Sum() int { return f.Done + f.Waiting + f.Dead + f.Discarded }

// Read reads everything, in the order in which a report flows, so that one that moves meanwhile is not missed.
func Read(ctx context.Context, js jetstream.JetStream) (*Books, error) {
	b := &Books{
		Queued: map[report.Key]int{}, Letters: map[report.Key][]dlq.Letter{}, Entries: map[report.Key][]keyvalue.Entry{},
		Acts: map[report.Key]audit.Event{}, Deaths: map[report.Key][]audit.Event{}, Closed: map[report.Key]bool{}, Problems: map[report.Key][]string{},
	}
	queues, trail := stream.New(js, stream.Config{}), audit.New(js)
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		return nil, err
	}
	for _, name := range stream.Names() {
		if err := b.readQueue(ctx, js, name); err != nil {
			return nil, err
		}
	}
	for f, err := range dlq.New(js, queues, ledger, trail, dlq.DefaultReplayMax).Verify(ctx) {
		if err != nil {
			return nil, err
		}
		key := f.Letter.Key
		b.Letters[key] = append(b.Letters[key], f.Letter)
		if f.Problem != "" {
			b.Problems[key] = append(b.Problems[key], "its letter: "+f.Problem)
		}
	}
	for e, err := range ledger.All(ctx, "*") {
		if err != nil {
			return nil, err
		}
		if e.State != "" { // else the marker of a deletion
			b.Entries[e.Key()] = append(b.Entries[e.Key()], e)
		}
	}
	for e, err := range trail.All(ctx) {
		if err != nil {
			return nil, err
		}
		b.note(e)
	}
	return b, nil
}

// readQueue reads a queue through its leader, as a work queue cannot be scanned.
func (b *Books) readQueue(ctx context.Context, js jetstream.JetStream, name string) error {
	for seq := uint64(1); ; {
		raw, err := jsapi.Next(ctx, js, name, "reports.>", seq)
		if errors.Is(err, jsapi.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		b.Queued[stream.ReadStored(name, raw).Key]++
		seq = raw.Sequence + 1
	}
}

func (b *Books) note(e audit.Event) {
	switch e.Kind {
	case audit.Death:
		b.Deaths[e.Key] = append(b.Deaths[e.Key], e)
		b.Acts[e.Key] = e
		if e.Hash != report.AuditHash(e.Key, e.Reason) {
			b.Problems[e.Key] = append(b.Problems[e.Key], fmt.Sprintf("the audit hash of its death %s does not fit the reason", e.ID()))
		}
	case audit.Reprocess, audit.Discard, audit.Repair:
		b.Acts[e.Key] = e
	case audit.Recovered:
		b.Closed[e.Key] = true
	}
}

// Of says where one report stands.
func (b *Books) Of(key report.Key) (f Fates) {
	f.Waiting, f.Dead = b.Queued[key], len(b.Letters[key])
	for _, e := range b.Entries[key] {
		switch {
		case e.State == keyvalue.Done:
			f.Done++
		case e.State == keyvalue.Reopened && f.Waiting+f.Dead == 0 && !b.givenUp(key): // reprocess was cut short
			f.Waiting++
		}
	}
	if f.Sum() == 0 && b.givenUp(key) {
		f.Discarded = 1
	}
	return f
}

func (b *Books) givenUp(key report.Key) bool {
	kind := b.Acts[key].Kind
	return kind == audit.Discard || kind == audit.Repair
}

// Strangers lists the reports that stand somewhere and are not among those that were published.
func (b *Books) Strangers(published map[report.Key]bool) (found map[report.Key]string) {
	found = map[report.Key]string{}
	for key := range b.Queued {
		found[key] = "a queue"
	}
	for key := range b.Letters {
		found[key] = dlq.Stream
	}
	for key := range b.Entries {
		found[key] = "the ledger"
	}
	for key := range published {
		delete(found, key)
	}
	return found
}
