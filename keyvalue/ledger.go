package keyvalue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

const (
	ledgerBucket = "reports_ledger"
	ledgerStream = "KV_" + ledgerBucket
)

var (
	// ErrNotFound says that the ledger has no entry for a report. Unless the leader said so it is no
	// proof: the entry may be newer than the replica that answered.
	ErrNotFound = errors.New("no entry in the ledger")
	// ErrConflict says that the entry has another revision than the one the commit was based on.
	ErrConflict = errors.New("the ledger's entry has changed")
	// ErrUnreadable says that what the ledger holds for a report is not an entry of ours.
	ErrUnreadable = errors.New("the ledger holds something that is not an entry")
)

// State says what an entry means.
type State string

const (
	Done     State = "done"     // the report is settled; its result is the answer
	Reopened State = "reopened" // an operator wants it worked again
)

// Entry is what the ledger knows of one report.
type Entry struct {
	State     State         `json:"state"`
	SiteID    string        `json:"site_id"`
	SourceURI string        `json:"source_uri"`
	Result    report.Result `json:"result,omitempty"`
	Attempts  int           `json:"attempts"` // runs of the handler, the successful one included
	Worker    string        `json:"worker"`
	Commit    string        `json:"commit"`             // stream/sequence/delivery that was settled: tells one's own commit from another's
	Time      time.Time     `json:"time"`               // of the commit
	Replaces  uint64        `json:"replaces,omitempty"` // revision of the entry that this one took the place of

	// Of a reopened entry, which keeps everything that was settled before: who reopened it, when and why.
	Actor      string    `json:"actor,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	ReopenedAt time.Time `json:"reopened_at,omitzero"`

	Revision uint64 `json:"-"` // 0 if there is no entry
	Raw      []byte `json:"-"` // the entry as it is stored; only of one that was read
}

// Key is the report's idempotency key.
func (e Entry) Key() report.Key { return report.NewKey(e.SiteID, e.SourceURI) }

// Settles reports whether the entry says done to a message that carries this revision of reopening (0 = none).
func (e Entry) Settles(reopened uint64) bool { return e.State == Done && e.Revision > reopened }

// Ledger is the bucket reports_ledger. It is safe for concurrent use.
type Ledger struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	writes func() (*writes, error) // opened by the first commit
	group  *group                  // nil: each commit is written on its own

	portion portion // of a look-up of many
}

// OpenLedger finds the bucket; a missing one is [jetstream.ErrBucketNotFound].
func OpenLedger(ctx context.Context, js jetstream.JetStream) (*Ledger, error) {
	kv, err := js.KeyValue(ctx, ledgerBucket)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	l := &Ledger{js: js, kv: kv}
	l.writes = sync.OnceValues(func() (*writes, error) { return openWrites(js.Conn(), ledgerStream) })
	return l, nil
}

// Group makes commits that wait for each other go to the server together, as atomic batches. It is for a server that syncs every write to
// the disk, which it then does once for a batch; any other server takes single commits faster. Call it before the first commit.
func (l *Ledger) Group() error {
	w, err := l.writes()
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	l.group = &group{writes: w}
	return nil
}

// Lookup asks any replica for a report's entry. A found entry may decide; [ErrNotFound] must not.
func (l *Ledger) Lookup(ctx context.Context, site report.Token, key report.Key) (Entry, error) {
	got, err := l.kv.Get(ctx, entryKey(site, key))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return Entry{}, ErrNotFound
	case err != nil:
		return Entry{}, fmt.Errorf("ledger: look up %s: %w", key.Short(), err)
	}
	return readEntry(got.Value(), got.Revision())
}

// LookupLeader asks the leader for a report's entry. The site may be "*".
func (l *Ledger) LookupLeader(ctx context.Context, site report.Token, key report.Key) (Entry, error) {
	got, err := jsapi.Last(ctx, l.js, ledgerStream, ledgerSubject(site, key))
	switch {
	case errors.Is(err, jsapi.ErrNotFound):
		return Entry{}, ErrNotFound
	case err != nil:
		return Entry{}, fmt.Errorf("ledger: look up %s: %w", key.Short(), err)
	}
	return readEntry(got.Data, got.Sequence)
}

// Commit writes an entry if the report's entry still has the revision e.Revision, 0 meaning that there is
// none, and returns the new revision. Otherwise nothing is written and the error is [ErrConflict]; with [Ledger.Group]
// the entry in the way may be e itself, if an answer was lost. After an error of another kind the write may have
// happened: committing the same entry again tells.
func (l *Ledger) Commit(ctx context.Context, e Entry) (revision uint64, err error) {
	type answer struct {
		revision uint64
		err      error
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("ledger: commit %s: %w", e.Key().Short(), err)
	}
	told := make(chan answer, 1)
	l.StartCommit(report.Ref{Site: report.NewToken(e.SiteID), Key: e.Key()}, e, func(revision uint64, err error) { told <- answer{revision, err} })
	select {
	case a := <-told:
		return a.revision, a.err
	case <-ctx.Done():
		return 0, fmt.Errorf("ledger: commit %s: %w", e.Key().Short(), ctx.Err())
	}
}

// StartCommit is [Ledger.Commit] for a caller who does not wait, and knows the entry's site and key already: done is called once with what
// that would return, which takes [jsapi.Timeout] at most, or a few times that with [Ledger.Group]. It must not block: the answers to other
// commits wait behind it.
func (l *Ledger) StartCommit(ref report.Ref, e Entry, done func(revision uint64, err error)) {
	expected := e.Revision
	e.Replaces = expected
	told := func(revision uint64, err error) {
		if err != nil && !errors.Is(err, ErrConflict) {
			err = fmt.Errorf("ledger: commit %s: %w", ref.Key.Short(), err)
		}
		done(revision, err)
	}
	value, err := e.encode()
	var w *writes
	if err == nil {
		w, err = l.writes()
	}
	subject := ledgerSubject(ref.Site, ref.Key)
	switch {
	case err != nil:
		told(0, err)
	case l.group != nil:
		go func() { told(l.group.put(subject, value, expected)) }()
	default:
		w.start(compareAndSet(subject, value, expected), told)
	}
}

// Reopen turns a settled entry into a reopened one by compare-and-set on its revision: its report will be worked again, and the
// result stays in it until then. It returns the new revision, or [ErrConflict].
func (l *Ledger) Reopen(ctx context.Context, e Entry, actor, reason string) (uint64, error) {
	e.State, e.Actor, e.Reason, e.ReopenedAt = Reopened, actor, reason, time.Now().UTC()
	return l.Commit(ctx, e)
}

// All yields the entries, of one site or of every site ("*"), in the order of their commits.
func (l *Ledger) All(ctx context.Context, site report.Token) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for m, err := range jsapi.Scan(ctx, l.js, ledgerStream, ledgerSubject(site, "*"), false) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(readEntry(m.Data, m.Sequence)) {
				return
			}
		}
	}
}

// Len is the number of entries.
func (l *Ledger) Len(ctx context.Context) (uint64, error) {
	s, err := l.js.Stream(ctx, ledgerStream)
	if err != nil {
		return 0, fmt.Errorf("read the ledger: %w", err)
	}
	return s.CachedInfo().State.Msgs, nil
}

func ledgerSubject(site report.Token, key report.Key) string {
	return "$KV." + ledgerBucket + "." + string(site) + "." + string(key)
}

func entryKey(site report.Token, key report.Key) string { return string(site) + "." + string(key) }
