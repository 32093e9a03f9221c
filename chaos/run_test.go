package chaos

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/natstest"
)

// On given servers a run refuses every stream of Guyline's, and deletes every one of them unless it has found something.
func TestGivenServers(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if err := unused(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Setup(t.Context(), js, Default().consumer().Queues); err != nil {
		t.Fatal(err)
	}
	streams := func() (names []string) {
		for name := range js.StreamNames(t.Context()).Name() {
			names = append(names, name)
		}
		return names
	}
	r := &run{js: js, log: slog.New(slog.DiscardHandler), result: &Result{Findings: []Finding{{What: Lost}}}}
	all := len(streams())
	r.leave(t.Context())
	if left := streams(); len(left) != all {
		t.Errorf("of %d streams with a finding only %v are left to be looked at", all, left)
	}
	for _, name := range streams() {
		if err := unused(t.Context(), js); err == nil || !strings.Contains(err.Error(), " exists: ") {
			t.Errorf("%v, and there is %s", err, streams())
		}
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := consumer.Setup(t.Context(), js, Default().consumer().Queues); err != nil {
		t.Fatal(err)
	}
	r.result.Findings = nil
	r.leave(t.Context())
	if left := streams(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
