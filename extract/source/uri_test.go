package source

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		uri  string
		want string // scheme, address or bucket, path; or kind and code
	}{
		{"", "poison invalid-event"},
		{"a\x00b.pdf", "poison invalid-event"},
		{"file:", "poison invalid-event"},
		{"file:///srv/reports/a%00.pdf", "poison invalid-event"},
		{"file:///srv/reports/a.pdf?x=1", "poison invalid-event"},
		{"file:///srv/reports/a.pdf#page=2", "poison invalid-event"},
		{"file:///srv/reports/100%.pdf", "poison invalid-event"},
		{"..", "poison outside-root"},
		{"../a.pdf", "poison outside-root"},
		{"q2/../../a.pdf", "poison outside-root"},
		{"/etc/passwd", "poison outside-root"},
		{"/srv/reports2/a.pdf", "poison outside-root"},
		{"/srv/reports/../secret.pdf", "poison outside-root"},
		{"file:///etc/passwd", "poison outside-root"},
		{"file:///srv/reports/%2e%2e/secret.pdf", "poison outside-root"},
		{"file:///srv/reports/..%2Fsecret.pdf", "poison outside-root"},
		{"file:..%2Fa.pdf", "poison outside-root"},
		{"file://nas7/srv/reports/a.pdf", "poison outside-root"},
		{"file://reports/a.pdf", "poison outside-root"},
		{"file://user:" + secret + "@localhost/srv/reports/a.pdf", "poison credentials-in-uri"},
		{"ftp://host/a.pdf", "poison unsupported-scheme"},
		{"gopher+x.y-1://host/a.pdf", "poison unsupported-scheme"},
		{"HTTPS://user:" + secret + "@host/a.pdf", "poison credentials-in-uri"},
		{"https://" + secret + "@host/a.pdf", "poison credentials-in-uri"},
		{"https://@host/a.pdf", "poison credentials-in-uri"},
		{"sftp://user:" + secret + "@host/a.pdf", "poison credentials-in-uri"},
		{"s3://key:" + secret + "@bucket/a.pdf", "poison credentials-in-uri"},
		{"ftp://user:" + secret + "@host/a.pdf", "poison credentials-in-uri"},
		{"https://user:" + secret + "/x@host/a.pdf", "poison invalid-event"},
		{"https:///a.pdf", "poison invalid-event"},
		{"https://host:99999/a.pdf", "poison invalid-event"},
		{"https://host:x/a.pdf", "poison invalid-event"},
		{"https://[::1/a.pdf", "poison invalid-event"},
		{"https://host/%zz?sig=" + secret, "poison invalid-event"},
		{"https://host/a b\n.pdf?sig=" + secret, "poison invalid-event"},
		{"https://münchen.example/a.pdf", "poison invalid-event"},
		{"sftp://host", "poison invalid-event"},
		{"sftp://host/a?b", "poison invalid-event"},
		{"sftp://host/a#b", "poison invalid-event"},
		{"sftp://host/a%00b", "poison invalid-event"},
		{"s3://bucket", "poison invalid-event"},
		{"s3://bucket/", "poison invalid-event"},
		{"s3:///key", "poison invalid-event"},
		{"a.PDF.part", "transient still-uploading 30s"},
		{"file:q2/A.tmp", "transient still-uploading 30s"},
		{"https://host/a.filepart?sig=" + secret, "transient still-uploading 30s"},
		{"sftp://host/a.PART", "transient still-uploading 30s"},
		{"s3://bucket/a.part", "transient still-uploading 30s"},

		{"a.pdf", "file a.pdf"},
		{"./q2//a.pdf", "file q2/a.pdf"},
		{"q2/../a.pdf", "file a.pdf"},
		{"..a/b..pdf", "file ..a/b..pdf"},
		{"100%.pdf", "file 100%.pdf"},
		{"a%2Fb.pdf", "file a%2Fb.pdf"},
		{"TWR-8842: q2?.pdf", "file TWR-8842: q2?.pdf"},
		{"9://a.pdf", "file 9:/a.pdf"},
		{"http:a.pdf", "file http:a.pdf"},
		{"/srv/reports/q2/a.pdf", "file q2/a.pdf"},
		{"/srv/reports", "file ."},
		{"file:///srv/reports/q2/a%20b%23.pdf", "file q2/a b#.pdf"},
		{"FILE://LocalHost/srv/reports/a+b.pdf", "file a+b.pdf"},
		{"file:/srv/reports/a.pdf", "file a.pdf"},
		{"file:q2/a.pdf", "file q2/a.pdf"},
		{"HTTP://Host.Example./a%20b.pdf?x=1#y", "http host.example:80 /a b.pdf"},
		{"https://[2001:db8::1]/a.pdf", "https [2001:db8::1]:443 /a.pdf"},
		{"https://host:8443", "https host:8443 "},
		{"https://host/a@b.pdf", "https host:443 /a@b.pdf"},
		{"sftp://host/a%3Fb/c.pdf", "sftp host:22 /a?b/c.pdf"},
		{"sftp://host:2222/a.pdf", "sftp host:2222 /a.pdf"},
		{"s3://bucket/q2/a%20?#é.pdf", "s3 bucket q2/a%20?#é.pdf"},
		{"S3://bucket//a", "s3 bucket /a"},
	} {
		got, err := parse("/srv/reports", tt.uri)
		said := verdict(t, err)
		if err == nil {
			said = got.scheme + " " + got.path
			if got.port != "" {
				said = got.scheme + " " + got.address() + " " + got.path
			} else if got.host != "" {
				said = got.scheme + " " + got.host + " " + got.path
			}
		}
		if said != tt.want {
			t.Errorf("%q: got %q (%v), want %q", tt.uri, said, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a.pdf", "../a", "/srv/reports/a", "file:///srv/reports/%2e%2e/a", "file://h/a", "file:%", "://", "a\x00",
		"s3://b/k", "s3://k:s@b/k", "https://u:p@h/x?sig=y", "http://h:1/a#b", "https://[::1]:8/a", "sftp://h/a", "sftp://h:/%3f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		got, err := parse("/srv/reports", uri)
		if err != nil {
			e := report.Classify(err)
			if e.Kind == report.KindHold || e.Code == report.CodeUnclassified || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %v %s: %v", uri, e.Kind, e.Code, err)
			}
			return
		}
		switch got.scheme {
		case "file":
			if !filepath.IsLocal(got.path) || filepath.Clean(got.path) != got.path || strings.Contains(got.path, "\x00") {
				t.Fatalf("%q leads to %q", uri, got.path)
			}
			if again, err := pathBelow("/srv/reports", filepath.Join("/srv/reports", got.path)); err != nil || again != got.path {
				t.Fatalf("%q leads to %q, which leads to %q, %v", uri, got.path, again, err)
			}
		case "http", "https", "sftp":
			if u, err := url.Parse(uri); err != nil || u.User != nil || got.host == "" || got.port == "" {
				t.Fatalf("%q leads to %+v", uri, got)
			}
		case "s3":
			if uri[5:] != got.host+"/"+got.path || strings.Contains(got.host, "@") {
				t.Fatalf("%q leads to %+v", uri, got)
			}
		default:
			t.Fatalf("%q has scheme %q", uri, got.scheme)
		}
	})
}
