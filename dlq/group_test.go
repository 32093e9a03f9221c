package dlq

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	key := string(report.NewKey("TWR-1", "a"))
	for _, tt := range []struct{ reason, want string }{
		{"", ""},
		{"no such host", "no such host"},
		{"exhausted 4 attempts: no such host", "no such host"},
		{"it exhausted 4 attempts: x", "it exhausted <n> attempts: x"},
		{"fetch sftp://portal/a/b.pdf: dial tcp 10.0.0.1:22: refused", "fetch <uri>: dial tcp <n>: refused"},
		{`get "https://host/x?y=1": HTTP/1.1 503`, `get "<uri>": HTTP/<n> <n>`},
		{"read /srv/reports/2026/q2.pdf: EOF", "read <path>: EOF"},
		{`read C:\reports\q2.pdf: EOF`, "read <path>: EOF"},
		{"extract testdata/q2.pdf: no page", "extract <path>: no page"},
		{"q2.PDF is application/pdf", "<path> is application/pdf"},
		{"key " + key + " is known", "key <hex> is known"},
		{"etag 00ff00ff, request 550e8400-e29b-41d4-a716-446655440000", "etag <hex>, request <hex>"},
		{"at 0xc000012345 in 1.5s, byte 1,024 of twr9017", "at <hex> in <n>s, byte <n> of twr<n>"},
		{"deadbeefdeadbeef", "<hex>"},
		{"a  b\n\x1b[31mc\u2028d", "a b [<n>mc d"},
		{"( ) / : a://", "( ) / : <uri>"},
	} {
		if got := pattern(tt.reason); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.reason, got, tt.want)
		}
	}
	if got := pattern(strings.Repeat("1 ", 10_000)); len(got) > 2*maxPattern {
		t.Errorf("a long reason has a pattern of %d bytes", len(got))
	}
}

// What an operator looks for among very many letters is a handful of causes, or a dozen failures of one error class.
func TestTwelveFailuresAmongManyAreFound(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	at := full().FailedAt
	put := func(i int, change func(*Letter)) Letter {
		l := full()
		l.Key, l.Site, l.Class, l.Code, l.Upstream, l.Due = report.NewKey("NY", fmt.Sprint(i)), "NY", report.ClassExhausted, report.CodeConnection, "sftp://portal", time.Time{}
		l.FailedAt = at.Add(time.Duration(i) * time.Second)
		l.Reason = fmt.Sprintf("exhausted 4 attempts: fetch sftp://portal/%d.pdf: dial tcp 10.0.0.%d:22: refused", i, i)
		change(&l)
		return y.put(t, l)
	}
	for i := range 600 {
		put(i, func(*Letter) {})
	}
	var last Letter
	for i := 600; i < 612; i++ {
		last = put(i, func(l *Letter) {
			l.Class, l.Code, l.Upstream, l.Reason = report.ClassPoison, report.CodeEncrypted, "file", fmt.Sprintf("extract q%d.pdf: encrypted", i)
			l.Due = at.Add(-time.Duration(i) * time.Hour)
		})
	}
	got := collect(t, y.List(t.Context(), Filter{Class: report.ClassPoison, Code: report.CodeEncrypted}))
	if len(got) != 12 {
		t.Errorf("%d letters are found, want 12", len(got))
	}
	groups, err := y.Group(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	want := Groups{Total: 612, Causes: []Group{
		{
			Class: report.ClassExhausted, Code: report.CodeConnection, Upstream: "sftp://portal", Reason: "fetch <uri>: dial tcp <n>: refused",
			Count: 600, First: at, Last: at.Add(599 * time.Second), Sample: report.NewKey("NY", "599"),
		},
		{
			Class: report.ClassPoison, Code: report.CodeEncrypted, Upstream: "file", Reason: "extract <path>: encrypted",
			Count: 12, First: at.Add(600 * time.Second), Last: at.Add(611 * time.Second), NextDue: last.Due, Sample: last.Key,
		},
	}}
	if diff := cmp.Diff(want, groups); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	few, err := group(y.List(t.Context(), Filter{}), 1)
	if want.Causes, want.Others = want.Causes[:1], 12; err != nil || !cmp.Equal(want, few) {
		t.Errorf("with room for one cause: %v (-want +got):\n%s", err, cmp.Diff(want, few))
	}
	if groups, err = y.Group(t.Context(), Filter{Site: "nowhere"}); err != nil || groups.Total != 0 || groups.Causes != nil {
		t.Errorf("no letter: %+v, %v", groups, err)
	}
}
