package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/report"
)

// Format is the first thing that a bundle says of itself.
const Format = "guyline-proof/1"

// What a bundle may have at most: it comes from strangers.
const (
	MaxBundle = 16 << 20 // bytes
	maxEvents = 10_000
	maxProof  = 64 // hashes of one proof, one for each level of a tree
)

// ErrBundle says that something is not a bundle, or is larger than one can be.
var ErrBundle = errors.New("not a proof")

// Bundle is one report's story with everything that is needed to verify it without a server.
type Bundle struct {
	Format     string        `json:"format"`
	Key        report.Key    `json:"key"`
	SiteID     string        `json:"site_id,omitempty"` // with SourceURI, or neither is known
	SourceURI  string        `json:"source_uri,omitempty"`
	Checkpoint string        `json:"checkpoint"` // the note
	Events     []ProvenEvent `json:"events"`     // of this report, in order

	// What the ledger of the checkpoint says: the result, or the two neighbours between which it would lie. At
	// the ends of the ledger there is one neighbour, and none if it had no result at all.
	Result *ProvenResult `json:"result,omitempty"`
	Before *Neighbour    `json:"before,omitempty"`
	After  *Neighbour    `json:"after,omitempty"`
}

// ProvenEvent is an event of the trail, and the proof that the checkpoint covers it.
type ProvenEvent struct {
	Sequence uint64           `json:"sequence"`
	Subject  string           `json:"subject"`
	Body     []byte           `json:"body"`
	Proof    tlog.RecordProof `json:"proof"`
}

// ProvenResult is a ledger entry as it is stored, and the proof that the checkpoint covers it.
type ProvenResult struct {
	Index    int64            `json:"index"`
	Revision uint64           `json:"revision"`
	Entry    []byte           `json:"entry"`
	Proof    tlog.RecordProof `json:"proof"`
}

// Neighbour is what the ledger's tree covers of another report's result, without its content.
type Neighbour struct {
	Index    int64            `json:"index"`
	Key      report.Key       `json:"key"`
	Revision uint64           `json:"revision"`
	Sum      report.Key       `json:"sha256"` // of the entry
	Proof    tlog.RecordProof `json:"proof"`
}

// Read reads a bundle from a stranger, or returns [ErrBundle]. It verifies nothing yet: see [Check].
func Read(r io.Reader) (b Bundle, err error) {
	in := &io.LimitedReader{R: r, N: MaxBundle + 1}
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	if err = d.Decode(&b); err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("something comes after it")
		}
	}
	switch {
	case in.N <= 0:
		err = fmt.Errorf("it has more than %d bytes", MaxBundle)
	case err != nil:
	case b.Format != Format:
		err = fmt.Errorf("its format is %.40q, this version reads %s", b.Format, Format)
	default:
		err = b.bounds()
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	return b, nil
}

// bounds refuses what no bundle of ours has.
func (b Bundle) bounds() error {
	longest := 0
	for _, e := range b.Events {
		longest = max(longest, len(e.Proof))
	}
	for _, n := range []*Neighbour{b.Before, b.After} {
		if n != nil {
			longest = max(longest, len(n.Proof))
		}
	}
	if b.Result != nil {
		longest = max(longest, len(b.Result.Proof))
	}
	switch {
	case len(b.Events) > maxEvents:
		return fmt.Errorf("it has more than %d events", maxEvents)
	case longest > maxProof:
		return fmt.Errorf("a proof in it has more than %d hashes", maxProof)
	}
	return nil
}
