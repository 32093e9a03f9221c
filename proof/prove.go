package proof

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// ErrNoCheckpoint says that no checkpoint of the stream fits and is signed by a given key.
var ErrNoCheckpoint = errors.New("there is no checkpoint that fits")

// Newer is what a bundle leaves out because it is newer than its checkpoint.
type Newer struct {
	Events int  // of the report
	Entry  bool // its ledger entry has changed
}

// Prove makes a bundle about one report, under the newest checkpoint of the stream that fits and that one of the keys has signed
// (without keys: that fits). The event names the report; with an empty one, site and source are looked up by the key if they can be.
func (l *Log) Prove(ctx context.Context, key report.Key, event report.Event, keys Keys) (b Bundle, newer Newer, err error) {
	s, err := l.read(ctx, nil, 0, false)
	if err != nil {
		return b, newer, err
	}
	var under *judged
	for _, j := range s.judge(keys) {
		if j.fits() {
			under = &j
		}
	}
	if under == nil {
		return b, newer, ErrNoCheckpoint
	}
	b = Bundle{Format: Format, Key: key, SiteID: event.SiteID, SourceURI: event.SourceURI, Checkpoint: string(under.note), Events: []ProvenEvent{}}
	// The entry first: if it was reopened, the trail has kept what it was.
	entry, err := l.ledger.LookupLeader(ctx, "*", key)
	if err != nil && !errors.Is(err, keyvalue.ErrNotFound) && !errors.Is(err, keyvalue.ErrUnreadable) {
		return b, newer, err
	}
	values := map[uint64][]byte{entry.Revision: entry.Raw}
	if newer.Events, err = l.proveEvents(ctx, &b, under.Checkpoint, values); err != nil {
		return b, newer, err
	}
	newer.Entry = entry.Revision > under.Revision
	if err := s.book.prove(&b, under.Checkpoint, values); err != nil {
		return b, newer, err
	}
	if err := l.identify(ctx, &b, entry); err != nil {
		return b, newer, err
	}
	if text, err := json.Marshal(b); err != nil || len(text) > MaxBundle {
		return b, newer, fmt.Errorf("the proof of %s would have %d bytes: %d are allowed: %w", key.Short(), len(text), MaxBundle, cmp.Or(err, ErrBundle))
	}
	return b, newer, nil
}

// proveEvents puts the report's events into the bundle, and returns how many are newer than the checkpoint. The ledger entries that
// they keep go into values, by revision.
func (l *Log) proveEvents(ctx context.Context, b *Bundle, c Checkpoint, values map[uint64][]byte) (newer int, err error) {
	var records []int64
	for m, err := range jsapi.Scan(ctx, l.js, audit.Stream, "reports.audit.*."+string(b.Key), false) {
		if err != nil {
			return 0, fmt.Errorf("audit trail: %w", err)
		}
		var e audit.Event
		if err := json.Unmarshal(m.Data, &e); err == nil && e.Kind == audit.Reprocess {
			values[e.Revision] = e.Settled
		}
		if m.Sequence > uint64(c.Events) {
			newer++
			continue
		}
		b.Events = append(b.Events, ProvenEvent{Sequence: m.Sequence, Subject: m.Subject, Body: m.Data})
		records = append(records, int64(m.Sequence)-1)
	}
	if len(records) > maxEvents {
		return 0, fmt.Errorf("the trail has %d events of %s: a proof holds at most %d", len(records), b.Key.Short(), maxEvents)
	}
	t, err := newTree(c.Events, records...)
	if err != nil || len(records) == 0 {
		return newer, err
	}
	for m, err := range jsapi.Scan(ctx, l.js, audit.Stream, "reports.audit.>", false) {
		if err != nil {
			return 0, fmt.Errorf("audit trail: %w", err)
		}
		if m.Sequence > uint64(c.Events) {
			break
		}
		t.add(eventLeaf(m.Sequence, m.Subject, m.Data))
	}
	for i, r := range records {
		if b.Events[i].Proof, err = t.prove(r); err != nil {
			return 0, err
		}
	}
	return newer, nil
}

// prove puts into the bundle what the ledger of the checkpoint says: the entry, or its two neighbours.
func (b *book) prove(out *Bundle, c Checkpoint, values map[uint64][]byte) error {
	key, ok := parseRaw(out.Key)
	if !ok {
		return fmt.Errorf("%q is not a key", report.Line(string(out.Key), 64))
	}
	set := b.set(c.Revision)
	i, landed := slices.BinarySearchFunc(set, key, func(v version, k rawKey) int { return bytes.Compare(v.key[:], k[:]) })
	wanted := []int64{int64(i)}
	if !landed {
		wanted = slices.DeleteFunc([]int64{int64(i) - 1, int64(i)}, func(n int64) bool { return n < 0 || n >= int64(len(set)) })
	}
	t, err := newTree(int64(len(set)), wanted...)
	if err != nil {
		return err
	}
	for _, v := range set {
		t.add(v.leaf)
	}
	for _, n := range wanted {
		path, err := t.prove(n)
		if err != nil {
			return err
		}
		v := set[n]
		neighbour := &Neighbour{Index: n, Key: v.key.key(), Revision: v.revision, Sum: rawKey(v.sum).key(), Proof: path}
		switch {
		case landed:
			if sha256.Sum256(values[v.revision]) != v.sum {
				return fmt.Errorf("the ledger's entry of %s changed meanwhile: run it again", out.Key.Short())
			}
			out.Result = &ProvenResult{Index: n, Revision: v.revision, Entry: values[v.revision], Proof: path}
		case n < int64(i):
			out.Before = neighbour
		default:
			out.After = neighbour
		}
	}
	return nil
}

// identify finds site and source of a report that is known by its key alone: in its entry, or in its letter.
func (l *Log) identify(ctx context.Context, b *Bundle, entry keyvalue.Entry) error {
	if b.SourceURI != "" {
		return nil
	}
	if entry.State != "" && entry.Key() == b.Key {
		b.SiteID, b.SourceURI = entry.SiteID, entry.SourceURI
		return nil
	}
	letter, err := l.letters.Current(ctx, "*", b.Key)
	if errors.Is(err, dlq.ErrNotFound) {
		return nil
	}
	if e, invalid := report.Decode(letter.Body); err == nil && invalid == nil && e.Key() == b.Key {
		b.SiteID, b.SourceURI = e.SiteID, e.SourceURI
	}
	return err
}
