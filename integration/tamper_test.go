package integration_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// problems is what Verify finds, by key; a sound letter has the empty problem.
func (w *world) problems() map[report.Key]string {
	w.Helper()
	found := map[report.Key]string{}
	for f, err := range w.letters.Verify(w.Context()) {
		w.must(err)
		found[f.Letter.Key] = f.Problem
	}
	return found
}

// Somebody who may write to the stream replaces a letter. Verify says so, whatever was changed with it.
func TestTamperedLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	key := w.publish("BAD", "s3://reports/a.pdf")
	sound := w.publish("BAD", "s3://reports/b.pdf")
	w.work()
	w.drain()
	if diff := cmp.Diff(map[report.Key]string{key: "", sound: ""}, w.problems()); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	subject := "reports.dlq.BAD." + string(key)
	original, err := jsapi.Last(t.Context(), w.js, dlq.Stream, subject)
	w.must(err)
	put := func(h nats.Header, payload []byte) {
		t.Helper()
		_, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: h, Data: payload})
		w.must(err)
	}
	forged := report.AuditHash(key, "forged")
	for _, tt := range []struct {
		name   string
		change map[string]string
		body   []byte
		want   string
	}{
		{"reason", map[string]string{"Guyline-Reason": "forged"}, nil, "the audit hash does not fit the reason"},
		{"hash", map[string]string{"Guyline-Audit-Hash": forged}, nil, "the audit hash does not fit the reason"},
		{"no hash", map[string]string{"Guyline-Audit-Hash": ""}, nil, "the audit hash does not fit the reason"},
		{"hash in upper case", map[string]string{"Guyline-Audit-Hash": strings.ToUpper(forged), "Guyline-Reason": "forged"}, nil, "the audit hash does not fit the reason"},
		{"reason and hash", map[string]string{"Guyline-Reason": "forged", "Guyline-Audit-Hash": forged}, nil, "the audit trail has recorded another reason for this death"},
		{"reason, hash and message", map[string]string{"Guyline-Reason": "forged", "Guyline-Audit-Hash": forged, "Guyline-Stream-Sequence": "999"}, nil, "the audit trail has not recorded this death"},
		{"message", map[string]string{"Guyline-Stream-Sequence": "2"}, nil, "the audit trail has not recorded this death"},
		{"no message", map[string]string{"Guyline-Stream": ""}, nil, "the audit trail has not recorded this death"},
		{"payload", nil, body("BAD", "s3://reports/b.pdf"), "the payload is another report's"},
		{"undecodable payload", nil, []byte("?"), "the payload is another report's"},
	} {
		h := nats.Header{}
		maps.Copy(h, original.Header)
		h.Del("Nats-Expected-Last-Subject-Sequence")
		h.Del("Nats-Expected-Stream")
		for name, value := range tt.change {
			h.Del(name)
			if value != "" {
				h.Set(name, value)
			}
		}
		payload := original.Data
		if tt.body != nil {
			payload = tt.body
		}
		put(h, payload)
		if diff := cmp.Diff(map[report.Key]string{key: tt.want, sound: ""}, w.problems()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	h := original.Header
	h.Del("Nats-Expected-Last-Subject-Sequence")
	put(h, original.Data)
	w.ends(invariant.Tally{Dead: 2})
}

// A letter for a report that nobody published, and one whose subject is another report's.
func TestInventedLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	real := w.publish("BAD", "s3://reports/a.pdf")
	w.work()
	w.drain()
	original, err := jsapi.Last(t.Context(), w.js, dlq.Stream, "reports.dlq.BAD."+string(real))
	w.must(err)
	invented := report.NewKey("TWR-1", "s3://reports/invented.pdf")
	h := nats.Header{
		"Guyline-Key": {string(invented)}, "Guyline-Class": {"poison"}, "Guyline-Reason": {"invented"}, "Guyline-Stream": {"REPORTS"},
		"Guyline-Stream-Sequence": {"7"}, "Guyline-Audit-Hash": {report.AuditHash(invented, "invented")},
	}
	ack, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "reports.dlq.TWR-1." + string(invented), Header: h, Data: body("TWR-1", "s3://reports/invented.pdf")})
	w.must(err)
	moved, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "reports.dlq.TWR-1." + string(real), Header: nats.Header{
		"Guyline-Key": {string(real)}, "Guyline-Reason": original.Header["Guyline-Reason"], "Guyline-Audit-Hash": original.Header["Guyline-Audit-Hash"],
		"Guyline-Stream": {"REPORTS"}, "Guyline-Stream-Sequence": {"1"},
	}, Data: original.Data})
	w.must(err)
	got := map[string]string{}
	for f, err := range w.letters.Verify(t.Context()) {
		w.must(err)
		got[string(f.Letter.Site)+" "+f.Letter.Key.Short()] = f.Problem
	}
	want := map[string]string{
		"BAD " + real.Short():       "",
		"TWR-1 " + invented.Short(): "the audit trail has not recorded this death",
		"TWR-1 " + real.Short():     "the payload is another report's",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, seq := range []uint64{ack.Sequence, moved.Sequence} {
		w.must(jsapi.Delete(t.Context(), w.js, dlq.Stream, seq))
	}
	w.ends(invariant.Tally{Dead: 1})
}
