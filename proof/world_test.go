package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/reprocess"
	"github.com/guyline/guyline/stream"
)

const site = "TWR 1"

// world is a server with everything set up, and a key.
type world struct {
	*Log
	testing.TB
	queues *stream.Queues
	trail  *audit.Trail
	desk   *reprocess.Desk
	key    Key
	public Keys
}

func newWorld(t testing.TB) *world {
	t.Helper()
	js, ctx := natstest.Start(t).JetStream(t), context.Background()
	cfg := stream.Config{QueueBytes: 8 << 30, Duplicates: time.Minute, AckWait: 30 * time.Second, MaxAttempts: 4, MaxAckPending: 20000, Replicas: 1}
	w := &world{TB: t, queues: stream.New(js, cfg), trail: audit.New(js)}
	w.must(errors.Join(stream.Setup(ctx, js, cfg), keyvalue.Setup(ctx, js, 1), audit.Setup(ctx, js, 1), dlq.Setup(ctx, js, 1), Setup(ctx, js, 1)))
	ledger, err := keyvalue.OpenLedger(ctx, js)
	w.must(err)
	letters := dlq.New(js, w.queues, ledger, w.trail, dlq.DefaultReplayMax)
	w.Log = New(js, ledger, letters)
	w.desk = reprocess.New(w.queues, ledger, letters, w.trail)
	w.key, w.public = newKey(t, "office")
	return w
}

func newKey(t testing.TB, name string) (Key, Keys) {
	t.Helper()
	private, public, err := NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(private + "\n")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, keys
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// die lets a report die the way a worker does.
func (w *world) die(uri string) dlq.Letter {
	w.Helper()
	ctx, e := context.Background(), report.Event{SiteID: site, SourceURI: uri}
	body, err := json.Marshal(e)
	w.must(err)
	_, err = stream.Publish(ctx, w.js, e, body)
	w.must(err)
	raw, err := jsapi.Last(ctx, w.js, stream.Reports, "reports.submitted.>")
	w.must(err)
	m, reason, now := stream.ReadStored(stream.Reports, raw), "unparseable structure in "+uri, time.Now().UTC()
	l := dlq.Letter{
		Key: m.Key, Site: m.Site, Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: reason, Hash: report.AuditHash(m.Key, reason),
		Attempts: 1, Subject: m.Subject, Source: m.Identity, PublishedAt: m.PublishedAt, FirstFailedAt: now, FailedAt: now, Worker: "host/4711", Body: m.Body,
	}
	l.Sequence, err = w.letters.Put(ctx, l, 0)
	w.must(err)
	w.must(errors.Join(w.letters.RecordDeath(ctx, l), w.queues.Delete(ctx, m.Ref)))
	return l
}

// land settles a report, also one that was reopened.
func (w *world) land(uri, result string) keyvalue.Entry {
	w.Helper()
	ctx, e := context.Background(), report.Event{SiteID: site, SourceURI: uri}
	now, err := w.ledger.LookupLeader(ctx, "*", e.Key())
	if !errors.Is(err, keyvalue.ErrNotFound) {
		w.must(err)
	}
	entry := keyvalue.Entry{
		State: keyvalue.Done, SiteID: site, SourceURI: uri, Result: report.Result(result), Attempts: 1, Worker: "host/4711",
		Time: time.Now().UTC(), Revision: now.Revision,
	}
	entry.Revision, err = w.ledger.Commit(ctx, entry)
	w.must(err)
	return entry
}

// reprocess reopens a settled report, and takes the copy out of the queue as a worker would.
func (w *world) reprocess(uri string) {
	w.Helper()
	ctx, key := context.Background(), report.NewKey(site, uri)
	_, err := w.desk.Reprocess(ctx, report.NewToken(site), key, reprocess.By{Actor: "ada@office", Reason: "a corrected file"})
	w.must(err)
	m, err := w.queues.Copy(ctx, report.NewToken(site), key)
	w.must(err)
	w.must(w.queues.Delete(ctx, m.Ref))
}

func (w *world) sign() Signed {
	w.Helper()
	signed, seen, err := w.Sign(context.Background(), w.key, nil, nil, nil, 0)
	if err != nil {
		w.Fatalf("sign: %v: %v", err, seen.Findings)
	}
	return signed
}

func (w *world) verify(keys Keys, file []byte) Report {
	w.Helper()
	seen, err := w.Verify(context.Background(), keys, file)
	w.must(err)
	return seen
}

// sound expects no finding, with and without the key, and so many checkpoints that fit.
func (w *world) sound(fit int) {
	w.Helper()
	for _, keys := range []Keys{w.public, nil} {
		if seen := w.verify(keys, nil); !seen.Sound() || seen.Fit != fit {
			w.Errorf("%d keys: %d checkpoints fit, want %d; findings: %v", len(keys), seen.Fit, fit, seen.Findings)
		}
	}
}

// finds expects exactly these findings, each given by its beginning.
func (w *world) finds(seen Report, want ...string) {
	w.Helper()
	var got []string
	for _, f := range seen.Findings {
		got = append(got, f.String())
	}
	ok := len(got) == len(want)
	for _, beginning := range want {
		ok = ok && slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, beginning) })
	}
	if !ok {
		w.Errorf("findings:\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// messages is what a stream holds.
func (w *world) messages(name string) (all []*nats.Msg) {
	w.Helper()
	for m, err := range jsapi.Scan(context.Background(), w.js, name, ">", false) {
		w.must(err)
		all = append(all, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return all
}

// rebuild is what somebody can do who may do everything on the server: the stream is made anew, with other content.
func (w *world) rebuild(name string, change func([]*nats.Msg) []*nats.Msg) {
	w.Helper()
	ctx, all := context.Background(), change(w.messages(name))
	s, err := w.js.Stream(ctx, name)
	w.must(err)
	w.remake(s.CachedInfo().Config)
	for _, m := range all {
		m.Header.Del("Nats-Expected-Stream")
		m.Header.Del("Nats-Expected-Last-Subject-Sequence")
		_, err := w.js.PublishMsg(ctx, m)
		w.must(err)
	}
}

// deletable makes the trail anew, empty, in a stream that lets its messages be deleted.
func (w *world) deletable(name string) {
	w.Helper()
	ctx := context.Background()
	s, err := w.js.Stream(ctx, name)
	w.must(err)
	cfg := s.CachedInfo().Config
	cfg.DenyDelete = false
	w.remake(cfg)
}

// remake makes a stream anew, empty. The server may find the deleted stream's files again, if they have not been removed yet.
func (w *world) remake(cfg jetstream.StreamConfig) {
	w.Helper()
	for {
		w.must(w.js.DeleteStream(context.Background(), cfg.Name))
		s, err := w.js.CreateStream(context.Background(), cfg)
		w.must(err)
		if s.CachedInfo().State.LastSeq == 0 {
			return
		}
	}
}

func (w *world) delete(name string, sequences ...uint64) {
	w.Helper()
	for _, seq := range sequences {
		w.must(jsapi.Delete(context.Background(), w.js, name, seq))
	}
}

// busy is a world with six deaths, three results and a checkpoint of them.
func busy(t testing.TB) (*world, Signed) {
	t.Helper()
	w := newWorld(t)
	for n := range 6 {
		w.die(fmt.Sprintf("s3://reports/dead%d.pdf", n+1))
	}
	for n := range 3 {
		w.land(fmt.Sprintf("s3://reports/done%d.pdf", n+1), `{"pages":1}`)
	}
	return w, w.sign()
}

// edited is an event whose body has been changed.
func edited(m *nats.Msg, change func(*audit.Event)) *nats.Msg {
	var e audit.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		panic(err)
	}
	change(&e)
	body, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: body}
}

// lastEdited edits the newest event.
func lastEdited(all []*nats.Msg) []*nats.Msg {
	all[len(all)-1] = edited(all[len(all)-1], func(e *audit.Event) { e.Worker = "another" })
	return all
}

func hashes(n int) []tlog.Hash { return make([]tlog.Hash, n) }

// republish hands a letter's report over again.
func (w *world) republish(l dlq.Letter) stream.Message {
	w.Helper()
	ack, err := w.js.Publish(context.Background(), l.Subject, l.Body)
	w.must(err)
	m, err := w.queues.Stored(context.Background(), stream.Ref{Stream: stream.Reports, Sequence: ack.Sequence})
	w.must(err)
	return m
}
