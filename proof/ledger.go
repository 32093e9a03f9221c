package proof

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// rawKey is a report's key in 32 bytes: there may be millions.
type rawKey [sha256.Size]byte

func parseRaw(key report.Key) (raw rawKey, ok bool) {
	n, err := hex.Decode(raw[:], []byte(key[:min(len(key), 2*len(raw))]))
	return raw, err == nil && n == len(raw) && len(key) == 2*len(raw) && string(key) == hex.EncodeToString(raw[:])
}

func (k rawKey) key() report.Key { return report.Key(hex.EncodeToString(k[:])) }

// version is one settled result: it was the ledger's answer from one revision to another.
type version struct {
	key      rawKey
	revision uint64
	until    uint64 // revision of the entry that reopened it; the largest number while it stands
	sum      [sha256.Size]byte
	leaf     tlog.Hash
}

const stands = math.MaxUint64

func (v version) at(revision uint64) bool { return v.revision <= revision && revision < v.until }

// book is the ledger with its history. present is filled first, then the past, from the trail; so whatever is found to be
// reopened has its event in what is read later. Versions that are newer than last do no harm: no digest is made of a revision after it.
type book struct {
	present  []present
	past     map[rawKey][]settled // from reprocess events
	versions []version            // by key, then revision
	last     uint64               // newest revision when it was read
	ripe     uint64               // newest visible revision that was old enough
	kept     time.Duration        // after how long the server forgets an entry; 0 = never
}

// present is an entry as the ledger has it now.
type present struct {
	key                rawKey
	revision, replaces uint64
	done               bool
	strange            bool // not one of ours, or not in its place: beside another one of the key, not instead of it
	sum                [sha256.Size]byte
}

// settled is an entry that was reopened.
type settled struct {
	revision, replaces uint64
	at                 time.Time // when the trail took the event
	sum                [sha256.Size]byte
}

// readLedger reads the ledger. Entries stored after ripe count as too young; the zero time lets all count.
func (s *survey) readLedger(ctx context.Context, ripe time.Time) error {
	s.book.past = map[rawKey][]settled{}
	stream, err := s.log.js.Stream(ctx, keyvalue.LedgerStream)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	s.book.kept = stream.CachedInfo().Config.MaxAge
	s.book.last = stream.CachedInfo().State.LastSeq // not the last that is read: that one may be overwritten meanwhile
	for r, err := range s.log.ledger.Records(ctx) {
		if err != nil {
			return err
		}
		s.book.last = max(s.book.last, r.Revision)
		if ripe.IsZero() || !r.Stored.After(ripe) {
			s.book.ripe = r.Revision
		}
		key, ok := parseRaw(r.Key)
		problem := ""
		switch {
		case !ok:
			problem = "what lies there is not named by a key"
		case r.Problem != nil:
			problem = "it is not an entry"
		case r.Entry.State == "":
			problem = "the entry was deleted"
		case r.Entry.Key() != r.Key || report.NewToken(r.Entry.SiteID) != r.Site:
			problem = "the entry is another report's: site and source do not fit the key under which it lies"
		}
		if problem != "" {
			s.found(Finding{What: InLedger, Sequence: r.Revision, Key: r.Key, Problem: problem})
		}
		if r.Entry.Revision = r.Revision; ok { // also of what cannot be read
			p := presentOf(key, r.Entry)
			p.strange = problem != ""
			s.book.present = append(s.book.present, p)
		}
	}
	return nil
}

func presentOf(key rawKey, e keyvalue.Entry) present {
	return present{key: key, revision: e.Revision, replaces: e.Replaces, done: e.State == keyvalue.Done, sum: sha256.Sum256(e.Raw)}
}

// readVanished looks, through the leader, for the entries that the trail says were reopened and that the scan of the ledger has not
// seen, as they were overwritten in that moment. What an entry replaced tells since when the one before it does not stand. It may have
// been reopened again since, so the report's own events are read once more, after the entry.
func (s *survey) readVanished(ctx context.Context) error {
	seen := make(map[rawKey]bool, len(s.book.past))
	for _, p := range s.book.present {
		if _, reopened := s.book.past[p.key]; reopened {
			seen[p.key] = true
		}
	}
	for raw := range s.book.past {
		if seen[raw] {
			continue
		}
		key, problem := raw.key(), ""
		entry, err := s.log.ledger.LookupLeader(ctx, "*", key)
		switch {
		case errors.Is(err, keyvalue.ErrNotFound) && s.book.forgotten(raw, s.now):
			continue
		case errors.Is(err, keyvalue.ErrNotFound), err == nil && entry.State == "":
			problem = "there is no entry, though the trail says that it was reopened"
		case errors.Is(err, keyvalue.ErrUnreadable):
			problem = "it is not an entry"
		case err != nil:
			return err
		}
		if problem != "" {
			s.found(Finding{What: InLedger, Sequence: entry.Revision, Key: key, Problem: problem})
			continue
		}
		s.book.present = append(s.book.present, presentOf(raw, entry))
		for m, err := range jsapi.Scan(ctx, s.log.js, audit.Stream, "reports.audit.*."+string(key), false) {
			if err != nil {
				return fmt.Errorf("audit trail: %w", err)
			}
			if e, problem := readEvent(m.Subject, m.Data); problem == "" && e.Kind == audit.Reprocess {
				_ = s.book.reopened(e.Key, e.Revision, e.Settled, m.Time) // what is wrong with it is found by who reads the trail
			}
		}
	}
	return nil
}

// forgotten reports whether the server may have forgotten the entry of a report by now, which was reopened and perhaps settled again.
func (b *book) forgotten(key rawKey, now time.Time) bool {
	return b.kept > 0 && !slices.ContainsFunc(b.past[key], func(s settled) bool { return now.Sub(s.at) <= b.kept })
}

// reopened notes the entry that a reprocess event keeps, which the trail took at a time.
func (b *book) reopened(key report.Key, revision uint64, value []byte, at time.Time) error {
	var e keyvalue.Entry
	raw, ok := parseRaw(key)
	if err := json.Unmarshal(value, &e); err != nil || !ok || e.State != keyvalue.Done || e.Key() != key {
		return fmt.Errorf("the settled entry that it keeps is not one of this report")
	}
	b.past[raw] = append(b.past[raw], settled{revision, e.Replaces, at, sha256.Sum256(value)})
	return nil
}

// close makes the versions of what was read. A settled entry was replaced when the next one says that its predecessor, the reopened
// entry, was written. The last one may have no visible successor: it stands, or was reopened while we read.
func (b *book) close() {
	slices.SortFunc(b.present, func(x, y present) int {
		return cmp.Or(bytes.Compare(x.key[:], y.key[:]), cmp.Compare(y.revision, x.revision))
	})
	// A replica that has not caught up shows an entry that another has replaced long ago, and then comes that one too. The newest stands.
	b.present = slices.CompactFunc(b.present, func(x, y present) bool { return x.key == y.key && !x.strange && !y.strange })
	for _, p := range b.present {
		past := b.past[p.key]
		delete(b.past, p.key)
		b.add(p.key, past, &p)
	}
	for key, past := range b.past {
		b.add(key, past, nil)
	}
	slices.SortFunc(b.versions, func(x, y version) int {
		if order := bytes.Compare(x.key[:], y.key[:]); order != 0 {
			return order
		}
		return cmp.Compare(x.revision, y.revision)
	})
	b.present, b.past = nil, nil
}

func (b *book) add(key rawKey, past []settled, now *present) {
	if now != nil {
		past = slices.DeleteFunc(past, func(s settled) bool { return s.revision >= now.revision })
	}
	slices.SortFunc(past, func(x, y settled) int { return cmp.Compare(x.revision, y.revision) })
	past = slices.CompactFunc(past, func(x, y settled) bool { return x.revision == y.revision })
	for i, s := range past {
		until := uint64(stands)
		switch {
		case i+1 < len(past):
			until = successor(s.revision, past[i+1].replaces, past[i+1].revision)
		case now != nil && now.done:
			until = successor(s.revision, now.replaces, now.revision)
		case now != nil:
			until = now.revision
		}
		b.put(key, s.revision, until, s.sum)
	}
	if now != nil && now.done {
		b.put(key, now.revision, stands, now.sum)
	}
}

// successor is the revision at which an entry was reopened: what the next settled entry replaced, if that can be.
func successor(revision, replaced, next uint64) uint64 {
	if revision < replaced && replaced < next {
		return replaced
	}
	return next
}

func (b *book) put(key rawKey, revision, until uint64, sum [sha256.Size]byte) {
	b.versions = append(b.versions, version{key, revision, until, sum, entryLeaf(key, revision, sum)})
}

// set is the results that there were at a revision, by key.
func (b *book) set(revision uint64) (set []version) {
	for _, v := range b.versions {
		if v.at(revision) {
			set = append(set, v)
		}
	}
	return set
}

// at is how many results there were at a revision, and the root of their tree.
func (b *book) at(revision uint64) (results int64, root tlog.Hash) {
	var t tree
	for _, v := range b.versions {
		if v.at(revision) {
			t.add(v.leaf)
		}
	}
	return t.size, t.root()
}
