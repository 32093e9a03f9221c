package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

func setUp(t testing.TB) (*audit.Trail, jetstream.JetStream) {
	t.Helper()
	js := natstest.Start(t).JetStream(t)
	if err := audit.Setup(context.Background(), js, 1); err != nil {
		t.Fatal(err)
	}
	return audit.New(js), js
}

func event(kind audit.Kind, site string, n uint64) audit.Event {
	return audit.Event{
		Time: time.Unix(int64(n), 0).UTC(), Kind: kind, Key: report.NewKey(site, "a.pdf"), SiteID: site, Reason: "why", Stream: "REPORTS", Sequence: n, Letter: n,
	}
}

func appended(t testing.TB, trail *audit.Trail, events ...audit.Event) {
	t.Helper()
	for _, e := range events {
		if err := trail.Append(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func collect(t testing.TB, events iter.Seq2[audit.Event, error]) (got []audit.Event) {
	t.Helper()
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	return got
}

func stored(t testing.TB, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(context.Background(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestAppendRefused(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	trail := audit.New(js)
	e := event(audit.Death, "TWR-9017", 1)
	if err := trail.Append(t.Context(), e); err == nil {
		t.Error("there is no stream: no error")
	}
	if err := audit.Setup(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	full := s.CachedInfo().Config
	full.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	appended(t, trail, e)
	if err := trail.Append(t.Context(), event(audit.Replay, "TWR-9017", 2)); err == nil {
		t.Error("the stream is full: no error")
	}
	if got := collect(t, trail.All(t.Context())); !cmp.Equal(got, []audit.Event{e}) {
		t.Errorf("a full stream has not kept the old: %s", cmp.Diff([]audit.Event{e}, got))
	}
	js.Conn().Close()
	if err := trail.Append(t.Context(), e); err == nil {
		t.Error("there is no server: no error")
	}
	if err := trail.AppendAsync(e); err == nil {
		t.Error("there is no server: no error of AppendAsync")
	}
}

func TestAppendTwice(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	e := event(audit.Death, "TWR-9017", 1)
	e.Hash = "h1"
	appended(t, trail, e, e)
	if n := stored(t, js); n != 1 {
		t.Errorf("%d events are stored, want 1", n)
	}

	// What the server has stored twice, as it does outside the duplicate window, is read once.
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	again := &nats.Msg{Subject: "reports.audit.TWR-9017." + string(e.Key), Header: nats.Header{"Nats-Msg-Id": {"another"}}, Data: body}
	if _, err := js.PublishMsg(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	// A correction is another event, and so is one that pretends to be the same with another reason.
	corrected, forged := e, e
	corrected.Corrects, corrected.Hash = true, "h2"
	forged.Hash = "h3"
	appended(t, trail, corrected)
	body, err = json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), again.Subject, body); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, js); n != 4 {
		t.Errorf("%d events are stored, want 4", n)
	}
	want := []audit.Event{e, corrected, forged}
	for what, events := range map[string]iter.Seq2[audit.Event, error]{
		"of the report": trail.Log(t.Context(), "TWR-9017", e.Key), "all": trail.All(t.Context()),
	} {
		if got := collect(t, events); !cmp.Equal(got, want) {
			t.Errorf("%s: %s", what, cmp.Diff(want, got))
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	if got := collect(t, trail.All(t.Context())); got != nil {
		t.Errorf("an empty trail: %+v", got)
	}
	undecodable := event(audit.Death, "", 3)
	undecodable.Key = report.UndecodableKey([]byte("x"))
	events := []audit.Event{
		event(audit.AttemptFailed, "NY 12.4", 1), event(audit.AttemptFailed, "NY", 2), undecodable,
		event(audit.Death, "NY 12.4", 4), event(audit.Death, "NY", 5), event(audit.Replay, "NY 12.4", 6), event(audit.Recovered, "NY 12.4", 7),
	}
	appended(t, trail, events...)
	if got := collect(t, trail.All(t.Context())); !cmp.Equal(got, events) {
		t.Errorf("all: %s", cmp.Diff(events, got))
	}
	for _, tt := range []struct {
		site report.Token
		key  report.Key
		want []audit.Event
	}{
		{"NY", report.NewKey("nowhere", "a.pdf"), nil},
		{"*", report.NewKey("nowhere", "a.pdf"), nil},
		{"NY", events[0].Key, nil}, // another site's
		{"NY=2012=2E4", events[0].Key, []audit.Event{events[0], events[3], events[5], events[6]}},
		{"*", events[0].Key, []audit.Event{events[0], events[3], events[5], events[6]}},
		{"NY", events[1].Key, []audit.Event{events[1], events[4]}},
		{"=", undecodable.Key, []audit.Event{undecodable}},
	} {
		if got := collect(t, trail.Log(t.Context(), tt.site, tt.key)); !cmp.Equal(got, tt.want) {
			t.Errorf("log of %s %s: %s", tt.site, tt.key.Short(), cmp.Diff(tt.want, got))
		}
		last, err := trail.Last(t.Context(), tt.site, tt.key)
		if tt.want == nil {
			if !errors.Is(err, audit.ErrNotFound) {
				t.Errorf("last of %s %s: got %+v, %v; want ErrNotFound", tt.site, tt.key.Short(), last, err)
			}
		} else if want := tt.want[len(tt.want)-1]; err != nil || !cmp.Equal(last, want) {
			t.Errorf("last of %s %s: %v %s", tt.site, tt.key.Short(), err, cmp.Diff(want, last))
		}
	}
	for e := range trail.All(t.Context()) { // the loop may break
		if !cmp.Equal(e, events[0]) {
			t.Error(cmp.Diff(events[0], e))
		}
		break
	}

	if _, err := js.Publish(t.Context(), "reports.audit.NY."+string(events[1].Key), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := trail.Last(t.Context(), "NY", events[1].Key); err == nil || errors.Is(err, audit.ErrNotFound) {
		t.Errorf("last, a garbled one: got %v", err)
	}
	var errs []error
	for _, err := range trail.Log(t.Context(), "NY", events[1].Key) {
		errs = append(errs, err)
	}
	if len(errs) != 3 || slices.IndexFunc(errs, func(err error) bool { return err != nil }) != 2 || !errors.Is(errs[2], audit.ErrUnreadable) {
		t.Errorf("log with a garbled event: %v", errs)
	}
	// It stays there for good, and does not hide what comes after it.
	after := event(audit.Discard, "NY", 8)
	appended(t, trail, after)
	var last audit.Event
	for e, err := range trail.All(t.Context()) {
		if last = e; err != nil && !errors.Is(err, audit.ErrUnreadable) {
			t.Error(err)
		}
	}
	if !cmp.Equal(last, after) {
		t.Errorf("after a garbled event: %s", cmp.Diff(after, last))
	}
}

func TestAppendAsync(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	var want []audit.Event
	for n := range uint64(100) {
		want = append(want, event(audit.AttemptFailed, "TWR-9017", n))
	}
	for _, e := range append(want, want...) {
		if err := trail.AppendAsync(e); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	if got := collect(t, trail.All(t.Context())); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if n := stored(t, js); n != 100 {
		t.Errorf("%d events are stored, want 100", n)
	}
}
