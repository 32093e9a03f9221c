package keyvalue_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

func TestLookupMany(t *testing.T) {
	t.Parallel()
	l, js := openLedger(t)
	if got, err := l.LookupMany(t.Context(), nil); err != nil || len(got) > 0 {
		t.Errorf("of none: %v, %v", got, err)
	}
	want := map[report.Key]keyvalue.Entry{}
	var refs []report.Ref
	for i := range 1100 {
		e := entry(fmt.Sprint("NY 12.", i%7), fmt.Sprint(i, ".pdf"))
		ref := report.Ref{Site: report.NewToken(e.SiteID), Key: e.Key()}
		refs = append(refs, ref)
		switch {
		case i%3 == 0: // no entry
			continue
		case i == 1:
			putRaw(t, js, ref, "{")
			continue
		case i == 2:
			putRaw(t, js, ref, "")
			continue
		}
		e = commit(t, l, e)
		if i == 4 {
			if _, err := l.Reopen(t.Context(), e, "ada@host", "a corrected file"); err != nil {
				t.Fatal(err)
			}
		}
		one, err := l.LookupLeader(t.Context(), ref.Site, ref.Key)
		if err != nil {
			t.Fatal(err)
		}
		want[ref.Key] = one
	}
	got, err := l.LookupMany(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("entries (-want +got):\n%.2000s", diff)
	}
	if e := got[refs[4].Key]; e.State != keyvalue.Reopened {
		t.Errorf("the reopened one is %+v", e)
	}
	js.Conn().Close()
	if got, err := l.LookupMany(t.Context(), refs); err == nil {
		t.Errorf("without a connection: %d entries", len(got))
	}
}

func putRaw(t testing.TB, js jetstream.JetStream, ref report.Ref, value string) {
	t.Helper()
	if _, err := js.Publish(t.Context(), "$KV.reports_ledger."+string(ref.Site)+"."+string(ref.Key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}
