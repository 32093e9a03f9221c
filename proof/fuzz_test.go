package proof

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Whatever is read as a checkpoint is written as it was read.
func FuzzCheckpoint(f *testing.F) {
	key, public := newKey(f, "office")
	c := Checkpoint{
		Origin: originOf(time.Unix(1, 5)), Events: 12, Root: tlog.Hash{1}, Results: 3, Revision: 17, LedgerRoot: tlog.Hash{2}, Time: time.Unix(100, 0).UTC(),
	}
	signed, err := c.sign(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Add(bytes.Replace(signed, []byte("ledger"), []byte("ledgers"), 1))
	f.Add([]byte("guyline/REPORTS_AUDIT/1970-01-01T00:00:01Z\n-1\n\nledger\ntime \n\n— x AAAAAAA=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, signers, err := Open(text, nil)
		if err != nil {
			return
		}
		if len(signers) > 0 || !bytes.HasPrefix(text, []byte(c.text()+"\n")) {
			t.Errorf("%q is read as %q, by %v", text, c.text(), signers)
		}
		if _, signers, err := Open(text, public); err == nil && !bytes.HasPrefix(signed, []byte(c.text())) {
			t.Errorf("%q counts as signed by %v", text, signers)
		}
	})
}

// Whatever is read as a bundle is within its bounds, is written as it was read, and does not hold without a signature.
func FuzzBundle(f *testing.F) {
	_, public := newKey(f, "office")
	proof := tlog.RecordProof{{1}, {2}}
	full, err := json.Marshal(Bundle{
		Format: Format, Key: "ab", SiteID: site, SourceURI: "a.pdf", Checkpoint: "x\n", Events: []ProvenEvent{{1, "reports.audit.x.y", []byte("{}"), proof}},
		Result: &ProvenResult{1, 2, []byte("{}"), proof}, Before: &Neighbour{1, "a", 2, "b", proof}, After: &Neighbour{1, "a", 2, "b", proof},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte(`{"format":"guyline-proof/1","events":null,"result":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Read(bytes.NewReader(again)); err != nil || !reflect.DeepEqual(b, back) {
			t.Errorf("%q\nis written as\n%q, %v", text, again, err)
		}
		if a, err := Check(b, public); err == nil {
			t.Errorf("%q holds: %+v", text, a)
		}
	})
}

// Keys come from files; a private one is never taken for a public one.
func FuzzKeys(f *testing.F) {
	private, public, err := NewKey("office")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(private)
	f.Add(public + "\n\n" + public + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if err == nil && (len(keys) == 0 || bytes.Contains([]byte(text), []byte("PRIVATE+KEY+office"))) {
			t.Errorf("%q is read as %d public keys", text, len(keys))
		}
		if key, err := ParseKey(text); err == nil && key.ID() == "" {
			t.Errorf("%q is a key without a name", text)
		}
	})
}
