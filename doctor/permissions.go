package doctor

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/stream"
)

// probeOf is a message that changes nothing, by whose refusal one learns that it would be permitted.
type probeOf struct{ subject, purpose string }

// nothing is a name that no stream has: every stream refuses a message that expects to be stored there.
const nothing = "a-probe-of-guyline-doctor"

// probes is what publishers, workers and operators publish to. Of the subjects below $JS.API. the empty request is refused; the
// acknowledgement has fewer parts than any that means something.
func probes() []probeOf {
	all := []probeOf{
		{"reports.submitted.probe", "publishers need it"},
		{"reports.requeued.probe.probe", "hand-backs and replays need it"},
		{"reports.parked.probe.probe", "parking needs it"},
		{"reports.dlq.probe.probe", "workers cannot bury reports without it"},
		{"reports.audit.probe.probe", "workers cannot explain deaths without it"},
		{"$KV.reports_ledger.probe.probe", "workers cannot settle reports without it"},
		{"$KV.reports_turns.probe", "automatic replays need it"},
	}
	for _, name := range stream.Names() {
		all = append(all,
			probeOf{"$JS.API.CONSUMER.MSG.NEXT." + name + "." + stream.Consumer, "workers cannot pull without it"},
			probeOf{"$JS.ACK." + name + "." + stream.Consumer + ".probe", "settled reports are delivered again and again without it"},
			probeOf{"$JS.API.STREAM.MSG.DELETE." + name, "the sweep needs it"},
		)
	}
	for _, name := range append(stream.Names(), dlq.Stream, audit.Stream, keyvalue.LedgerStream) {
		all = append(all, probeOf{"$JS.API.STREAM.MSG.GET." + name, "whatever must not be decided on a stale answer is read there"})
	}
	return all
}

// probe sends every probe and waits for the answers. Whether one was denied only the connection's error handler hears.
func probe(ctx context.Context, js jetstream.JetStream) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range probes() {
		all.Go(func() {
			m := nats.NewMsg(p.subject)
			switch rest, api := strings.CutPrefix(p.subject, "$JS.API."); {
			case api && strings.HasPrefix(rest, "CONSUMER.MSG.NEXT."):
				m.Subject, m.Data = jsapi.Prefix(js)+rest, []byte(`{"batch": "none"}`) // what is not a number is a bad request
			case api:
				m.Subject = jsapi.Prefix(js) + rest
			case !strings.HasPrefix(p.subject, "$JS."):
				m.Header.Set(jetstream.ExpectedStreamHeader, nothing)
			}
			_, _ = js.Conn().RequestMsgWithContext(ctx, m)
		})
	}
	all.Wait()
}

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// Denial reads what a connection's error handler heard. What the doctor asks for itself alone is none.
func Denial(err error) (Denied, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return Denied{}, false
	}
	found := violation.FindStringSubmatch(err.Error())
	if found == nil || strings.HasPrefix(found[2], "$SYS.") {
		return Denied{}, false
	}
	act := "publish"
	if !strings.EqualFold(found[1], act) {
		act = "subscribe"
	}
	return Denied{act, found[2]}, true
}
