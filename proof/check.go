package proof

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// ErrProof says that something in a bundle does not fit the rest or the signature: it was changed, or never true.
var ErrProof = errors.New("the proof does not hold")

// Answer is what a bundle proves.
type Answer struct {
	Key        report.Key      `json:"key"`
	SiteID     string          `json:"site_id,omitempty"`
	SourceURI  string          `json:"source_uri,omitempty"`
	Landed     bool            `json:"landed"`
	Entry      *keyvalue.Entry `json:"settled,omitempty"` // if it landed
	Events     []Numbered      `json:"events"`
	Checkpoint Checkpoint      `json:"checkpoint"`
	SignedBy   []string        `json:"signed_by"`
}

// Numbered is an event and its sequence in the trail.
type Numbered struct {
	Number uint64 `json:"number"`
	audit.Event
}

// Check verifies a bundle offline: the signature by one of the keys, of which there must be one, and that everything in it is what was
// signed. Otherwise the error is [ErrProof], [ErrNote] or [ErrSignature], and says what does not fit.
//
// It holds for the moment of the checkpoint. Whether the report had landed then is proved either way. Events can have been left out by
// whoever made the bundle, but not added or changed.
func Check(b Bundle, keys Keys) (Answer, error) {
	if len(keys) == 0 {
		return Answer{}, fmt.Errorf("%w: without a public key nothing can be checked", ErrKey)
	}
	if err := b.bounds(); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrProof, err)
	}
	c, signers, err := Open([]byte(b.Checkpoint), keys)
	if err != nil {
		return Answer{}, fmt.Errorf("the checkpoint: %w", err)
	}
	a := Answer{Key: b.Key, SiteID: b.SiteID, SourceURI: b.SourceURI, Checkpoint: c, SignedBy: signers, Events: []Numbered{}}
	raw, ok := parseRaw(b.Key)
	if !ok {
		return a, fmt.Errorf("%w: its key is not 64 hex digits", ErrProof)
	}
	if name := (report.Event{SiteID: b.SiteID, SourceURI: b.SourceURI}); b.SiteID != "" || b.SourceURI != "" {
		// Without a valid site another one could have the same key, as the key is made of both with a colon between them.
		if err := name.Validate(); err != nil {
			return a, fmt.Errorf("%w: its site and source are not those of a report: %w", ErrProof, err)
		}
		if name.Key() != b.Key {
			return a, fmt.Errorf("%w: its key is not the one of this site and source", ErrProof)
		}
	}
	for _, e := range b.Events {
		if err := a.event(e); err != nil {
			return a, fmt.Errorf("%w: event %d: %w", ErrProof, e.Sequence, err)
		}
	}
	if err := a.result(b, raw); err != nil {
		return a, fmt.Errorf("%w: %w", ErrProof, err)
	}
	return a, nil
}

func (a *Answer) event(p ProvenEvent) error {
	e, problem := readEvent(p.Subject, p.Body)
	switch n := len(a.Events); {
	case p.Sequence == 0 || p.Sequence > uint64(a.Checkpoint.Events):
		return errors.New("the checkpoint does not cover it")
	case n > 0 && p.Sequence <= a.Events[n-1].Number:
		return errors.New("it is not in the order of the trail")
	case problem != "":
		return errors.New(problem)
	case e.Key != a.Key || a.SiteID != "" && e.SiteID != a.SiteID && e.SiteID != "":
		return errors.New("it is another report's")
	}
	leaf := eventLeaf(p.Sequence, p.Subject, p.Body)
	if err := tlog.CheckRecord(p.Proof, a.Checkpoint.Events, a.Checkpoint.Root, int64(p.Sequence)-1, leaf); err != nil {
		return errors.New("it is not the one that was signed")
	}
	a.Events = append(a.Events, Numbered{p.Sequence, e})
	return nil
}

func (a *Answer) result(b Bundle, key rawKey) error {
	if b.Result != nil {
		if b.Before != nil || b.After != nil {
			return errors.New("it has both a result and neighbours in its place")
		}
		return a.landed(*b.Result, key)
	}
	var gap [2]int64 // the places of the neighbours
	gap[0], gap[1] = -1, a.Checkpoint.Results
	for i, n := range []*Neighbour{b.Before, b.After} {
		if n == nil {
			continue
		}
		neighbour, isKey := parseRaw(n.Key)
		sum, isSum := parseRaw(n.Sum)
		order := strings.Compare(string(n.Key), string(b.Key))
		if !isKey || !isSum || order != 2*i-1 {
			return errors.New("a neighbour in the ledger is not on its side of the report's place")
		}
		leaf := entryLeaf(neighbour, n.Revision, [sha256.Size]byte(sum))
		if err := tlog.CheckRecord(n.Proof, a.Checkpoint.Results, a.Checkpoint.LedgerRoot, n.Index, leaf); err != nil {
			return errors.New("a neighbour in the ledger is not the one that was signed")
		}
		gap[i] = n.Index
	}
	if gap[0]+1 != gap[1] {
		return errors.New("it does not prove that the ledger had no result: there is room between the neighbours")
	}
	return nil
}

func (a *Answer) landed(r ProvenResult, key rawKey) error {
	leaf := entryLeaf(key, r.Revision, sha256.Sum256(r.Entry))
	if err := tlog.CheckRecord(r.Proof, a.Checkpoint.Results, a.Checkpoint.LedgerRoot, r.Index, leaf); err != nil {
		return errors.New("the result is not the one that was signed")
	}
	var e keyvalue.Entry
	if err := json.Unmarshal(r.Entry, &e); err != nil || e.State != keyvalue.Done || e.Key() != a.Key {
		return errors.New("the result that was signed is not one of this report")
	}
	if a.SourceURI != "" && (e.SiteID != a.SiteID || e.SourceURI != a.SourceURI) {
		return errors.New("the result that was signed is of another site and source")
	}
	if e.Revision = r.Revision; a.SourceURI == "" {
		a.SiteID, a.SourceURI = e.SiteID, e.SourceURI
	}
	a.Landed, a.Entry = true, &e
	return nil
}
