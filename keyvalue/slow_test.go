package keyvalue_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// A request that is not answered in time is made again for fewer entries.
func TestLookupManySlow(t *testing.T) {
	t.Parallel()
	server, deaf := natstest.Start(t), &natstest.Deaf{}
	js, err := jetstream.New(server.Conn(t, nats.SetCustomDialer(deaf)))
	if err != nil {
		t.Fatal(err)
	}
	if err := keyvalue.Setup(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	l, err := keyvalue.OpenLedger(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	var refs []report.Ref
	for i := range 40 {
		e := commit(t, l, entry("TWR-1", fmt.Sprint(i, ".pdf")))
		refs = append(refs, report.Ref{Site: report.NewToken(e.SiteID), Key: e.Key()})
	}
	var (
		mu    sync.Mutex
		asked []int
	)
	watcher := server.Conn(t)
	if _, err := watcher.Subscribe("$JS.API.DIRECT.GET."+keyvalue.LedgerStream, func(m *nats.Msg) {
		var request struct {
			LastFor []string `json:"multi_last"`
		}
		if json.Unmarshal(m.Data, &request) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if asked = append(asked, len(request.LastFor)); len(asked) == 1 { // long after its answer is lost, and long before it is given up
			time.AfterFunc(2*time.Second, func() { deaf.Lose.Store(false) })
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	deaf.Lose.Store(true)
	if got, err := l.LookupMany(t.Context(), refs); err != nil || len(got) != len(refs) {
		t.Fatalf("%d entries, %v; want %d", len(got), err, len(refs))
	}
	sizes := func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
	natstest.Eventually(t, "the last request to be seen", func() bool { return len(sizes()) >= 3 }) // the watcher may hear of it after its answer
	if got := sizes(); got[0] != 32 || got[1] != 16 {
		t.Errorf("asked for %v", got)
	}
}
