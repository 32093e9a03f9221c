package report_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

func TestMoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, uri, want string }{
		{`{"site_id":"A","source_uri":"old"}`, "new", `{"site_id":"A","source_uri":"new"}`},
		{"{ \"source_uri\" :\n \"old\" , \"site_id\":\"A\", \"extra\": [1, 2.50] }", "s3://b/ü<&>.pdf", "{ \"source_uri\" :\n \"s3://b/ü<&>.pdf\" , \"site_id\":\"A\", \"extra\": [1, 2.50] }"},
		{`{"metadata":{"source_uri":"inner"},"site_id":"A","source_uri":"o\u006cd"}`, `q"\`, `{"metadata":{"source_uri":"inner"},"site_id":"A","source_uri":"q\"\\"}`},
		{`{"a":{"source_uri":1},"source_uri":"old","site_id":"source_uri"}`, "x", `{"a":{"source_uri":1},"source_uri":"x","site_id":"source_uri"}`},
	} {
		e, body, err := report.Moved([]byte(c.body), c.uri)
		if err != nil || string(body) != c.want || e.SourceURI != c.uri {
			t.Errorf("%s: %v, %s, want %s", c.body, err, body, c.want)
		}
	}
}

func TestMovedRefuses(t *testing.T) {
	t.Parallel()
	good := `{"site_id":"A","source_uri":"old"}`
	for _, c := range []struct {
		body, uri string
		want      error
	}{
		{"not json", "new", report.ErrUndecodable},
		{`{"site_id":"A"}`, "new", report.ErrInvalid},
		{good, "", report.ErrInvalid},
		{good, strings.Repeat("u", report.MaxSourceURI+1), report.ErrInvalid},
		{good, "\xff", report.ErrInvalid},
	} {
		if _, _, err := report.Moved([]byte(c.body), c.uri); !errors.Is(err, c.want) {
			t.Errorf("%.40s to %.10q: %v, want %v", c.body, c.uri, err, c.want)
		}
	}
}

func FuzzMoved(f *testing.F) {
	f.Add([]byte(`{"site_id":"A","source_uri":"old","m":{"source_uri":[]}}`), "new")
	f.Add([]byte(` {"source_uri":"\ud83d\ude00","site_id":"A"} `), "a\"b")
	f.Fuzz(func(t *testing.T, body []byte, uri string) {
		before, err := report.Decode(body)
		if err != nil {
			return
		}
		after, moved, err := report.Moved(body, uri)
		if err != nil {
			return
		}
		if after.SiteID != before.SiteID || after.SourceURI != uri || !after.Due.Equal(before.Due) || after.SHA256 != before.SHA256 {
			t.Errorf("%q became %q", body, moved)
		}
		if _, back, err := report.Moved(moved, before.SourceURI); err != nil || len(back) < len(body)-6*len(before.SourceURI)-12 {
			t.Errorf("%q and back: %q, %v", body, back, err)
		}
	})
}
