package audit_test

import (
	"maps"
	"testing"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

func TestKnown(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	appended(t, trail, event(audit.Death, "NY 12.4", 1), event(audit.Discard, "NY 12.4", 2), event(audit.AttemptFailed, "TWR-2", 3))
	refs := []report.Ref{}
	for _, site := range []string{"NY 12.4", "TWR-1", "TWR-2", "TWR-3"} {
		refs = append(refs, report.Ref{Site: report.NewToken(site), Key: report.NewKey(site, "a.pdf")})
	}
	got, err := trail.Known(t.Context(), refs)
	if want := map[report.Key]bool{refs[0].Key: true, refs[2].Key: true}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	js.Conn().Close()
	if _, err := trail.Known(t.Context(), refs); err == nil {
		t.Error("without a connection there is no error")
	}
}
