package proof

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/report"
)

// The tree is that of the library, at every size, and so are its proofs.
func TestTree(t *testing.T) {
	t.Parallel()
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (hashes []tlog.Hash, err error) {
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	var grown tree
	for n := range int64(200) {
		want, err := tlog.TreeHash(n, read)
		if got := grown.root(); err != nil || got != want {
			t.Fatalf("size %d: root %s, want %s, %v", n, got, want, err)
		}
		leaf := eventLeaf(uint64(n+1), "reports.audit.x.y", fmt.Append(nil, n))
		grown.add(leaf)
		more, err := tlog.StoredHashesForRecordHash(n, leaf, read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
	}
	for _, size := range []int64{1, 2, 3, 64, 65, 199} {
		for _, record := range []int64{0, size / 2, size - 1} {
			again, err := newTree(size, record, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range size {
				again.add(eventLeaf(uint64(i+1), "reports.audit.x.y", fmt.Append(nil, i)))
			}
			proof, err := again.prove(record)
			if err != nil {
				t.Fatal(err)
			}
			leaf := eventLeaf(uint64(record+1), "reports.audit.x.y", fmt.Append(nil, record))
			if err := tlog.CheckRecord(proof, size, again.root(), record, leaf); err != nil {
				t.Errorf("record %d of %d: %v", record, size, err)
			}
		}
	}
	if _, err := newTree(3, 3); err == nil {
		t.Error("a record that is not in the tree: no error")
	}
	if _, err := grown.prove(7); err == nil {
		t.Error("a record that was not asked for: no error")
	}
}

// What is covered is a storage format.
func TestLeaves(t *testing.T) {
	t.Parallel()
	if got, want := eventLeaf(17, "reports.audit.NY.ab", []byte("{}")), tlog.RecordHash([]byte("17\nreports.audit.NY.ab\n{}")); got != want {
		t.Errorf("event: got %s, want %s", got, want)
	}
	key, sum := report.NewKey("NY", "a.pdf"), report.PayloadHash([]byte("value"))
	raw, ok := parseRaw(key)
	if got, want := entryLeaf(raw, 9, sha256.Sum256([]byte("value"))), tlog.RecordHash([]byte(string(key)+"\n9\n"+sum)); got != want || !ok {
		t.Errorf("entry: got %s, want %s", got, want)
	}
	for _, bad := range []report.Key{"", "ab", key + "0", key[1:] + "A", key[1:] + "x"} {
		if _, ok := parseRaw(bad); ok {
			t.Errorf("%q is taken for a key", bad)
		}
	}
}
