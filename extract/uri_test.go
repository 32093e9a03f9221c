package extract

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

func TestPathBelow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		uri  string
		want string // a path, or a code
		err  bool
	}{
		{"", "invalid-event", true},
		{"a\x00b.pdf", "invalid-event", true},
		{"file:", "invalid-event", true},
		{"file:///srv/reports/a%00.pdf", "invalid-event", true},
		{"file:///srv/reports/a.pdf?x=1", "invalid-event", true},
		{"file:///srv/reports/a.pdf#page=2", "invalid-event", true},
		{"file:///srv/reports/100%.pdf", "invalid-event", true},
		{"..", "outside-root", true},
		{"../a.pdf", "outside-root", true},
		{"q2/../../a.pdf", "outside-root", true},
		{"/etc/passwd", "outside-root", true},
		{"/srv/reports2/a.pdf", "outside-root", true},
		{"/srv/reports/../secret.pdf", "outside-root", true},
		{"file:///etc/passwd", "outside-root", true},
		{"file:///srv/reports/%2e%2e/secret.pdf", "outside-root", true},
		{"file:///srv/reports/..%2Fsecret.pdf", "outside-root", true},
		{"file:..%2Fa.pdf", "outside-root", true},
		{"file://nas7/srv/reports/a.pdf", "outside-root", true},
		{"file://reports/a.pdf", "outside-root", true},
		{"s3://reports/a.pdf", "unsupported-scheme", true},
		{"HTTPS://user:pass@host/a.pdf", "unsupported-scheme", true},
		{"sftp://host/a.pdf", "unsupported-scheme", true},
		{"a.pdf", "a.pdf", false},
		{"./q2//a.pdf", "q2/a.pdf", false},
		{"q2/../a.pdf", "a.pdf", false},
		{"..a/b..pdf", "..a/b..pdf", false},
		{"100%.pdf", "100%.pdf", false},
		{"a%2Fb.pdf", "a%2Fb.pdf", false},
		{"TWR-8842: q2?.pdf", "TWR-8842: q2?.pdf", false},
		{"9://a.pdf", "9:/a.pdf", false},
		{"/srv/reports/q2/a.pdf", "q2/a.pdf", false},
		{"/srv/reports", ".", false},
		{"file:///srv/reports/q2/a%20b%23.pdf", "q2/a b#.pdf", false},
		{"FILE://LocalHost/srv/reports/a+b.pdf", "a+b.pdf", false},
		{"file:/srv/reports/a.pdf", "a.pdf", false},
		{"file:q2/a.pdf", "q2/a.pdf", false},
	} {
		got, err := pathBelow("/srv/reports", tt.uri)
		if tt.err {
			e := report.Classify(err)
			if err == nil || e.Kind != report.KindPoison || string(e.Code) != tt.want {
				t.Errorf("%q: got %q, %v (%v %s), want poison %s", tt.uri, got, err, e.Kind, e.Code, tt.want)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%q: got %q, %v, want %q", tt.uri, got, err, tt.want)
		}
	}
}

func FuzzPathBelow(f *testing.F) {
	for _, s := range []string{"a.pdf", "../a", "/srv/reports/a", "file:///srv/reports/%2e%2e/a", "file://h/a", "s3://b/k", "file:%", "://", "a\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		got, err := pathBelow("/srv/reports", uri)
		if err != nil {
			if e := report.Classify(err); e.Kind != report.KindPoison || e.Code == report.CodeUnclassified || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %v %s: %v", uri, e.Kind, e.Code, err)
			}
			return
		}
		if !filepath.IsLocal(got) || filepath.Clean(got) != got || strings.Contains(got, "\x00") {
			t.Fatalf("%q leads to %q", uri, got)
		}
		if again, err := pathBelow("/srv/reports", filepath.Join("/srv/reports", got)); err != nil || again != got {
			t.Fatalf("%q leads to %q, which leads to %q, %v", uri, got, again, err)
		}
	})
}
