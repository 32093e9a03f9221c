package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Whoever is told that a letter was changed is told which command names it.
func TestForgedLetterIsNamed(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	y.dead(t, 1)
	key := y.published[0]
	raw, err := jsapi.Last(t.Context(), y.js, dlq.Stream, "reports.dlq.*."+string(key))
	if err != nil {
		t.Fatal(err)
	}
	raw.Header.Set(report.HeaderReason, "nothing is wrong")
	raw.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	if _, err := y.js.PublishMsg(t.Context(), &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"dlq", "discard", string(key), "--reason", "x"}, {"dlq", "repair", string(key), "--uri", "s3://reports/new.pdf", "--reason", "x"},
		{"dlq", "replay", string(key)}, {"dlq", "replay", "--all", "--yes"},
	} {
		e := y.do(t, "", args...)
		if said := e.stdout + e.stderr; e.code == 0 || !strings.Contains(said, "`guyline dlq verify`") {
			t.Errorf("%v: exit %d\n%s", args, e.code, said)
		}
	}
	y.want(t, exitPerson, []string{"dlq", "verify"}, key.Short()+" TWR-1: the audit hash does not fit the reason\n")
}
