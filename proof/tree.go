package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// eventLeaf is the record hash of an event.
func eventLeaf(sequence uint64, subject string, body []byte) tlog.Hash {
	data := make([]byte, 0, len(subject)+len(body)+22)
	data = strconv.AppendUint(data, sequence, 10)
	data = append(append(data, '\n'), subject...)
	return tlog.RecordHash(append(append(data, '\n'), body...))
}

// entryLeaf is the record hash of a ledger entry.
func entryLeaf(key rawKey, revision uint64, sum [sha256.Size]byte) tlog.Hash {
	data := make([]byte, 0, 2*len(key)+2*len(sum)+22)
	data = hex.AppendEncode(data, key[:])
	data = strconv.AppendUint(append(data, '\n'), revision, 10)
	return tlog.RecordHash(hex.AppendEncode(append(data, '\n'), sum[:]))
}

// tree is the root of a growing list of records: it keeps one hash for each complete subtree, and those that were asked for.
type tree struct {
	size  int64
	stack []tlog.Hash // roots of the complete subtrees, largest first
	kept  map[int64]tlog.Hash
}

// newTree returns an empty tree that will be able to prove the given records once it has the given size.
func newTree(size int64, records ...int64) (*tree, error) {
	t := &tree{kept: map[int64]tlog.Hash{}}
	wanted := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		for _, i := range indexes {
			t.kept[i] = tlog.Hash{}
		}
		return make([]tlog.Hash, len(indexes)), nil
	})
	for _, r := range records {
		if _, err := tlog.ProveRecord(size, r, wanted); err != nil {
			return nil, fmt.Errorf("prove record %d of %d: %w", r, size, err)
		}
	}
	return t, nil
}

func (t *tree) add(h tlog.Hash) {
	n := t.size
	for level := 0; ; level++ {
		if len(t.kept) > 0 {
			if i := tlog.StoredHashIndex(level, n); t.wants(i) {
				t.kept[i] = h
			}
		}
		if n&1 == 0 {
			break
		}
		left := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		h, n = tlog.NodeHash(left, h), n>>1
	}
	t.stack = append(t.stack, h)
	t.size++
}

func (t *tree) wants(index int64) bool {
	_, ok := t.kept[index]
	return ok
}

func (t *tree) root() tlog.Hash {
	if t.size == 0 {
		return tlog.Hash(sha256.Sum256(nil)) // RFC 6962, section 2.1
	}
	root := t.stack[len(t.stack)-1]
	for i := len(t.stack) - 2; i >= 0; i-- {
		root = tlog.NodeHash(t.stack[i], root)
	}
	return root
}

// prove returns the inclusion proof of a record that newTree was told about, in the tree as it is.
func (t *tree) prove(record int64) (tlog.RecordProof, error) {
	return tlog.ProveRecord(t.size, record, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			if !t.wants(index) {
				return nil, fmt.Errorf("hash %d was not kept", index)
			}
			hashes[i] = t.kept[index]
		}
		return hashes, nil
	}))
}

// rootOf is the root of a whole list.
func rootOf(hashes []tlog.Hash) tlog.Hash {
	var t tree
	for _, h := range hashes {
		t.add(h)
	}
	return t.root()
}
