package consumer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// inHand is what a worker has in hand after it has received these reports, which nobody has looked up.
func (w *world) inHand(k *worker, sites ...string) (batch []*delivery) {
	w.Helper()
	for _, site := range sites {
		e := report.Event{SiteID: site, SourceURI: uri(site)}
		batch = append(batch, &delivery{Message: stream.Message{Event: e, Site: report.NewToken(site), Key: e.Key()}, logger: k.log})
	}
	return batch
}

// What arrives together is looked up in one request to the ledger and one to the registry. It decides nothing that a look-up of each on
// its own would not.
func TestLookAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	sites, err := keyvalue.OpenSites(t.Context(), w.js)
	if err != nil {
		t.Fatal(err)
	}
	if err := sites.Import(t.Context(), []string{"NEW", "DONE", "REOPENED", "DELETED", "GARBLED"}); err != nil {
		t.Fatal(err)
	}
	for _, site := range []string{"DONE", "REOPENED", "DELETED", "GARBLED"} {
		w.commit(site)
	}
	ledger := w.ledger()
	if _, err := ledger.Reopen(t.Context(), w.entry("REOPENED"), "ada@host", "a corrected file"); err != nil {
		t.Fatal(err)
	}
	kv, err := w.js.KeyValue(t.Context(), "reports_ledger")
	if err != nil {
		t.Fatal(err)
	}
	key := func(site string) string { return site + "." + string(report.NewKey(site, uri(site))) }
	if err := kv.Delete(t.Context(), key("DELETED")); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), key("GARBLED"), []byte("{")); err != nil {
		t.Fatal(err)
	}

	asked := [2]chan *nats.Msg{make(chan *nats.Msg, 8), make(chan *nats.Msg, 8)} // not callbacks, which may run after a flush
	for i, stream := range []string{"KV_reports_ledger", "KV_reports_sites"} {
		if _, err := w.js.Conn().Subscribe("$JS.API.DIRECT.GET."+stream+".>", func(*nats.Msg) { t.Errorf("%s was asked for one", stream) }); err != nil {
			t.Fatal(err)
		}
		if _, err := w.js.Conn().ChanSubscribe("$JS.API.DIRECT.GET."+stream, asked[i]); err != nil {
			t.Fatal(err)
		}
	}
	k := w.open()
	batch := w.inHand(k, "NEW", "DONE", "REOPENED", "DELETED", "GARBLED", "STRANGE")
	batch = append(batch, &delivery{Message: stream.Message{Invalid: report.Poison(report.CodeUndecodable, nil)}, logger: k.log})
	k.lookAhead(batch)
	if err := w.js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if len(asked[0]) != 1 || len(asked[1]) != 1 {
		t.Errorf("the ledger was asked %d times, the registry %d times, want once", len(asked[0]), len(asked[1]))
	}
	for i, want := range []struct {
		looked, known bool
		state         keyvalue.State
		revision      bool
	}{
		{true, true, "", false},               // new
		{true, true, keyvalue.Done, true},     // done
		{true, true, keyvalue.Reopened, true}, // reopened
		{true, true, "", true},                // deleted: the commit needs the marker's revision
		{false, true, "", false},              // garbled: the look-up of its own says so
		{true, false, "", false},              // of a strange site, which the leader has to confirm
		{false, false, "", false},             // undecodable
	} {
		a := batch[i].ahead
		var entry keyvalue.Entry
		if a.entry != nil {
			entry = *a.entry
		}
		if a.looked != want.looked || a.known != want.known || entry.State != want.state || (entry.Revision > 0) != want.revision {
			t.Errorf("%s: %+v, want %+v", batch[i].Event.SiteID, a, want)
		}
	}
	if got, err := k.lookup(batch[1]); err != nil || !got.Settles(0) {
		t.Errorf("row 3 of what is done: %+v, %v", got, err)
	}

	// Without an answer nothing is known ahead, and each report is looked up on its own.
	k.nc.Close()
	again := w.inHand(k, "DONE")
	k.lookAhead(again)
	if again[0].ahead.looked || again[0].ahead.known {
		t.Errorf("on a closed connection: %+v", again[0].ahead)
	}
}

// Of reports that were delivered before, the newest events are asked for together. What they do not say the row asks for.
func TestLookAheadOfRedeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	asked := make(chan *nats.Msg, 8)
	if _, err := w.js.Conn().ChanSubscribe("$JS.API.DIRECT.GET."+audit.Stream, asked); err != nil {
		t.Fatal(err)
	}
	k := w.open()
	k.stopping = t.Context()
	sites := []string{"FAILED", "OTHER", "SILENT", "NEW"}
	batch := w.inHand(k, sites...)
	for i, d := range batch {
		d.Ref = stream.Ref{Stream: stream.Reports, Sequence: uint64(i + 1)}
		d.Identity, d.count = d.Ref, 2
	}
	batch[3].count = 1
	failed := func(d *delivery, delivery uint64) {
		e := audit.Event{
			Time: time.Now(), Kind: audit.AttemptFailed, Key: d.Key, SiteID: d.Event.SiteID, Stream: d.Ref.Stream, Sequence: d.Ref.Sequence, Delivery: delivery,
		}
		if err := k.trail.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	failed(batch[0], 1)
	failed(batch[1], 0) // of another delivery
	k.lookAhead(batch)
	if err := w.js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 {
		t.Errorf("the trail was asked %d times, want once", len(asked))
	}
	for i, want := range []bool{true, false, false, false} {
		if got := batch[i].ahead.failed; got != want {
			t.Errorf("%s: failed is %t, want %t", sites[i], got, want)
		}
	}
	if suspect, err := k.isSuspect(batch[0]); suspect || err != nil {
		t.Errorf("the report that failed is a suspect: %t, %v", suspect, err)
	}
	if suspect, err := k.isSuspect(batch[2]); !suspect || err != nil {
		t.Errorf("the report of which nothing is known is a suspect: %t, %v", suspect, err)
	}
}

// Reports that arrive together do not wait for each other's work: one that is slow keeps its own slot only.
func TestSlowOneHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 8
	cfg.Queues.AckWait = time.Minute
	w := newWorld(t, cfg, script{})
	release := make(chan struct{})
	w.script["SLOW"] = []run{func(ctx context.Context) (report.Result, error) {
		<-release
		return succeed(ctx)
	}}
	w.publish("SLOW")
	var others []string
	for i := range 50 {
		site := fmt.Sprint("R", i)
		w.script[site] = []run{succeed}
		w.publish(site)
		others = append(others, site)
	}
	w.start()
	for _, site := range others {
		w.await(site, Succeeded)
	}
	if w.saw("SLOW", Succeeded) > 0 {
		t.Error("the slow one did not hang")
	}
	close(release)
	w.check(invariant.Tally{Done: 51})
}
