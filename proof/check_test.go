package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// prove makes a bundle and sends it through its file form.
func (w *world) prove(uri string) Bundle {
	w.Helper()
	e := report.Event{SiteID: site, SourceURI: uri}
	b, _, err := w.Prove(context.Background(), e.Key(), e, w.public)
	w.must(err)
	return reread(w.TB, b)
}

func reread(t testing.TB, b Bundle) Bundle {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(b, back) {
		t.Errorf("%+v\nis read as\n%+v", b, back)
	}
	return back
}

func TestProveAndCheck(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	l := w.die("told.pdf")
	if outcome, err := w.letters.Discard(t.Context(), l.Sequence, dlq.By{Actor: "ada@office", Reason: "hopeless"}); outcome != dlq.Discarded {
		t.Fatal(outcome, err)
	}
	for n := range 40 { // so that reports that never landed have neighbours on both sides, or on one
		w.land(fmt.Sprintf("more%d.pdf", n), `{}`)
	}
	w.reprocess("more7.pdf")
	signed := w.sign()
	for uri, want := range map[string]struct {
		landed bool
		kinds  []audit.Kind
	}{
		"told.pdf":               {false, []audit.Kind{audit.Death, audit.Discard}},
		"s3://reports/dead1.pdf": {false, []audit.Kind{audit.Death}},
		"s3://reports/done1.pdf": {true, nil},
		"more39.pdf":             {true, nil},
		"more7.pdf":              {false, []audit.Kind{audit.Reprocess}},
		"never seen.pdf":         {false, nil},
	} {
		a, err := Check(w.prove(uri), w.public)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		var kinds []audit.Kind
		for _, e := range a.Events {
			kinds = append(kinds, e.Kind)
		}
		if a.Landed != want.landed || !reflect.DeepEqual(kinds, want.kinds) || a.SourceURI != uri || !reflect.DeepEqual(a.Checkpoint, signed.Checkpoint) || a.SignedBy[0] != w.key.ID() {
			t.Errorf("%s: %+v", uri, a)
		}
	}

	// Every place in the ledger: before the first, between any two, after the last.
	for n := range 64 {
		if a, err := Check(w.prove(fmt.Sprintf("nowhere%d", n)), w.public); err != nil || a.Landed {
			t.Fatalf("nowhere%d: %v", n, err)
		}
	}

	// By its key alone, site and source are found in the entry or in the letter.
	for uri, named := range map[string]bool{"s3://reports/dead1.pdf": true, "s3://reports/done1.pdf": true, "told.pdf": false} {
		b, _, err := w.Prove(t.Context(), report.NewKey(site, uri), report.Event{}, nil)
		w.must(err)
		if a, err := Check(b, w.public); err != nil || (a.SourceURI == uri) != named || (b.SiteID == site) != named {
			t.Errorf("%s by its key: %v, %+v", uri, err, a)
		}
	}

	// What is newer than the checkpoint is not in it, and that is said.
	w.land("more7.pdf", `{"corrected":true}`)
	w.reprocess("s3://reports/done1.pdf")
	key := report.NewKey(site, "s3://reports/done1.pdf")
	b, newer, err := w.Prove(t.Context(), key, report.Event{}, w.public)
	if a, err2 := Check(b, w.public); err != nil || err2 != nil || !a.Landed || newer != (Newer{1, true}) || string(a.Entry.Result) != `{"pages":1}` {
		t.Errorf("reopened since: %v, %v, %+v, %+v", err, err2, newer, a)
	}
	if a, err := Check(w.prove("more7.pdf"), w.public); err != nil || a.Landed {
		t.Errorf("settled since: %v, %+v", err, a)
	}
}

func TestProveNeedsACheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := report.Event{SiteID: site, SourceURI: "a.pdf"}
	if _, _, err := w.Prove(t.Context(), e.Key(), e, nil); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("without a checkpoint: %v", err)
	}
	w.die("b.pdf")
	w.sign()
	if a, err := Check(w.prove("a.pdf"), w.public); err != nil || a.Landed { // a ledger without any result
		t.Errorf("%v, %+v", err, a)
	}
	_, strangers := newKey(t, "stranger")
	if _, _, err := w.Prove(t.Context(), e.Key(), e, strangers); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("signed by another: %v", err)
	}
}

// Whatever is changed in a bundle, it no longer holds.
func TestTamperedBundle(t *testing.T) {
	t.Parallel()
	w, _ := busy(t)
	l := w.die("told.pdf")
	if _, err := w.letters.Replay(t.Context(), l.Sequence, dlq.By{Actor: "ada@office", Reason: "again"}); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		w.land(fmt.Sprintf("more%d.pdf", n), `{}`)
	}
	older := w.sign()
	w.die("later.pdf")
	newer := w.sign()
	forger, _ := newKey(t, "office")
	forged, err := newer.sign(forger)
	w.must(err)
	absent, landed := "", w.prove("more3.pdf")
	for n := 0; absent == ""; n++ { // one that has two neighbours
		if b := w.prove(fmt.Sprintf("absent%d", n)); b.Before != nil && b.After != nil {
			absent = fmt.Sprintf("absent%d", n)
		}
	}
	dead, nothing := w.prove("told.pdf"), w.prove(absent)
	if dead.Before == nil && dead.After == nil || len(dead.Events) != 2 {
		t.Fatalf("%+v", dead)
	}
	other := w.prove("s3://reports/dead1.pdf")

	for name, change := range map[string]func(b *Bundle){
		"format":            func(b *Bundle) { b.Format = "guyline-proof/2" },
		"key":               func(b *Bundle) { b.Key = report.NewKey(site, "x") },
		"no key":            func(b *Bundle) { b.Key = "" },
		"key in upper case": func(b *Bundle) { b.Key = report.Key(strings.ToUpper(string(b.Key))) },
		"key, not named":    func(b *Bundle) { b.Key, b.SiteID, b.SourceURI = report.NewKey(site, "x"), "", "" },
		"site":              func(b *Bundle) { b.SiteID = "NY" },
		"no site":           func(b *Bundle) { b.SiteID = "" },
		"source":            func(b *Bundle) { b.SourceURI = "x" },
		"no source":         func(b *Bundle) { b.SourceURI = "" },
		"no checkpoint":     func(b *Bundle) { b.Checkpoint = "" },
		"an older one":      func(b *Bundle) { b.Checkpoint = string(older.Note) },
		"another's":         func(b *Bundle) { b.Checkpoint = string(forged) },
		"its time":          func(b *Bundle) { b.Checkpoint = strings.Replace(b.Checkpoint, "time 2", "time 3", 1) },
		"its size":          func(b *Bundle) { b.Checkpoint = strings.Replace(b.Checkpoint, "\n9\n", "\n8\n", 1) },
		"its signature":     func(b *Bundle) { b.Checkpoint = b.Checkpoint[:len(b.Checkpoint)-6] + "AAAA=\n" },
		"event, sequence":   func(b *Bundle) { b.Events[0].Sequence++ },
		"event, none":       func(b *Bundle) { b.Events[0].Sequence = 0 },
		"event, beyond":     func(b *Bundle) { b.Events[1].Sequence = 1 << 63 },
		"event, subject":    func(b *Bundle) { b.Events[0].Subject = other.Events[0].Subject },
		"event, site":       func(b *Bundle) { b.Events[0].Subject = strings.Replace(b.Events[0].Subject, "TWR=201", "NY", 1) },
		"event, body": func(b *Bundle) {
			b.Events[0].Body = bytes.Replace(b.Events[0].Body, []byte("host"), []byte("hose"), 1)
		},
		"event, reason and hash": func(b *Bundle) {
			var e audit.Event
			_ = json.Unmarshal(b.Events[0].Body, &e)
			e.Reason = "forged"
			e.Hash = report.AuditHash(e.Key, e.Reason)
			b.Events[0].Body, _ = json.Marshal(e)
		},
		"event, a space":     func(b *Bundle) { b.Events[0].Body = append(b.Events[0].Body, ' ') },
		"event, no body":     func(b *Bundle) { b.Events[0].Body = nil },
		"event, another's":   func(b *Bundle) { b.Events[0] = other.Events[0] },
		"event, proof":       func(b *Bundle) { b.Events[0].Proof[0][0] ^= 1 },
		"event, short proof": func(b *Bundle) { b.Events[0].Proof = b.Events[0].Proof[1:] },
		"event, no proof":    func(b *Bundle) { b.Events[0].Proof = nil },
		"event, long proof":  func(b *Bundle) { b.Events[0].Proof = append(b.Events[0].Proof, tlog.Hash{}) },
		"event, huge proof":  func(b *Bundle) { b.Events[0].Proof = make([]tlog.Hash, 65) },
		"events, swapped":    func(b *Bundle) { b.Events[0], b.Events[1] = b.Events[1], b.Events[0] },
		"events, twice":      func(b *Bundle) { b.Events = append(b.Events, b.Events[1]) },
		"events, too many":   func(b *Bundle) { b.Events = make([]ProvenEvent, maxEvents+1) },
		"no neighbours":      func(b *Bundle) { b.Before, b.After = nil, nil },
		"one neighbour":      func(b *Bundle) { b.Before, b.After = b.After, b.Before },
		"another's result":   func(b *Bundle) { b.Result = landed.Result },
		"only that":          func(b *Bundle) { b.Result, b.Before, b.After = landed.Result, nil, nil },
		"others' neighbours": func(b *Bundle) {
			b.Before, b.After = nil, nil
			if nothing.Before.Key > b.Key {
				b.Before = nothing.Before
			} else {
				b.After = nothing.After
			}
		},
	} {
		b := reread(t, dead)
		change(&b)
		w.refuses("dead, "+name, b)
	}
	for name, change := range map[string]func(b *Bundle){
		"index":     func(b *Bundle) { b.Result.Index++ },
		"below":     func(b *Bundle) { b.Result.Index = -1 },
		"revision":  func(b *Bundle) { b.Result.Revision++ },
		"entry":     func(b *Bundle) { b.Result.Entry = bytes.Replace(b.Result.Entry, []byte("host"), []byte("hose"), 1) },
		"no entry":  func(b *Bundle) { b.Result.Entry = nil },
		"proof":     func(b *Bundle) { b.Result.Proof[1][3] ^= 1 },
		"no proof":  func(b *Bundle) { b.Result.Proof = nil },
		"no result": func(b *Bundle) { b.Result = nil },
		"both":      func(b *Bundle) { b.Before = nothing.Before },
		"neighbours": func(b *Bundle) {
			b.Result, b.Before, b.After = nil, nothing.Before, nothing.After
		},
	} {
		b := reread(t, landed)
		change(&b)
		w.refuses("landed, "+name, b)
	}
	for name, change := range map[string]func(b *Bundle){
		"no before":       func(b *Bundle) { b.Before = nil },
		"no after":        func(b *Bundle) { b.After = nil },
		"index":           func(b *Bundle) { b.Before.Index-- },
		"both indexes":    func(b *Bundle) { b.Before.Index++; b.After.Index++ },
		"neighbour's key": func(b *Bundle) { b.After.Key = report.Key(strings.Repeat("f", 64)) },
		"no key":          func(b *Bundle) { b.After.Key = "" },
		"revision":        func(b *Bundle) { b.Before.Revision++ },
		"sum":             func(b *Bundle) { b.Before.Sum = b.After.Sum },
		"no sum":          func(b *Bundle) { b.Before.Sum = "" },
		"proof":           func(b *Bundle) { b.After.Proof[0][0] ^= 1 },
		"huge proof":      func(b *Bundle) { b.After.Proof = make([]tlog.Hash, 65) },
		"itself":          func(b *Bundle) { b.Key, b.SiteID, b.SourceURI = b.Before.Key, "", "" },
	} {
		b := reread(t, nothing)
		change(&b)
		w.refuses("absent, "+name, b)
	}
	if _, err := Check(dead, nil); !errors.Is(err, ErrKey) {
		t.Errorf("without a key: %v", err)
	}
}

// refuses expects that a bundle holds no longer, or cannot even be read.
func (w *world) refuses(what string, b Bundle) {
	w.Helper()
	text, err := json.Marshal(b)
	w.must(err)
	read, err := Read(bytes.NewReader(text))
	if err == nil {
		_, err = Check(read, w.public)
	}
	if !errors.Is(err, ErrProof) && !errors.Is(err, ErrNote) && !errors.Is(err, ErrSignature) && !errors.Is(err, ErrBundle) {
		w.Errorf("%s: got %v", what, err)
	}
}

func TestReadBundle(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{
		"nothing":         "",
		"another thing":   `{"hello": 1}`,
		"no format":       `{}`,
		"a list":          `[]`,
		"something after": `{"format":"guyline-proof/1"} {}`,
		"a short hash":    `{"format":"guyline-proof/1","events":[{"proof":["AAAA"]}]}`,
		"too much":        `{"format":"guyline-proof/1","checkpoint":"` + strings.Repeat("x", MaxBundle) + `"}`,
	} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
