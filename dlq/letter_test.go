package dlq

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func TestMarshalJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what, body string
		asEvent    bool
	}{
		{"binary", "\x00\x01%PDF", false},
		{"JSON that is not UTF-8", `{"site_id":"` + "\xff" + `"}`, false},
		{"cut off", `{"site_id":`, false},
		{"two objects", "{}{}", false},
		{"an event", `{"site_id": "NY 12.4", "source_uri": "s3://reports/a.pdf?a&b", "n": 12345678901234567890}`, true},
		{"another JSON value", "[1, 2]", true},
	} {
		l := full()
		l.Sequence, l.Body = 17, []byte(tt.body)
		line, err := json.Marshal(l)
		if err != nil || !utf8.Valid(line) || bytes.Contains(line, []byte("\n")) {
			t.Errorf("%s: %q, %v", tt.what, line, err)
			continue
		}
		var got map[string]any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&got); err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		want := map[string]any{
			"key": string(l.Key), "site_id": "NY 12.4", "class": "exhausted", "code": "timeout", "reason": l.Reason, "audit_hash": l.Hash,
			"attempts": json.Number("4"), "replays": json.Number("3"), "due": "2026-11-29T02:00:00.12345679Z",
			"published_at": "2026-11-29T02:00:00.123456789Z", "first_failed_at": "2026-11-29T02:00:00.123456791Z",
			"failed_at": "2026-11-29T02:00:00.123456792Z", "reopened": json.Number("9"), "upstream": "s3://reports", "worker": "host/4711",
			"version": "0.1.0", "subject": l.Subject, "stream": "REPORTS", "stream_sequence": json.Number("4611686018427387904"),
			"letter": json.Number("17"), "headers_dropped": json.Number("2"),
			"headers": map[string]any{"X-Firm": []any{"Åcme", "Ltd"}, "x-firm": []any{""}},
		}
		if tt.asEvent {
			var event any
			d := json.NewDecoder(bytes.NewReader(l.Body))
			d.UseNumber()
			if err := d.Decode(&event); err != nil {
				t.Fatal(err)
			}
			want["event"] = event
		} else {
			want["payload"] = base64.StdEncoding.EncodeToString(l.Body)
		}
		if !cmp.Equal(got, want) {
			t.Errorf("%s: %s", tt.what, cmp.Diff(want, got))
		}
	}
}

// A list has no payloads: then neither field is there, nor are the times that are not set.
func TestMarshalJSONWithoutPayload(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(Letter{Key: "ab", Site: report.NoSite, Reason: "r"})
	const want = `{"key":"ab","site_id":"","class":"","code":"","reason":"r","audit_hash":"","attempts":0,"replays":0,"subject":"","stream":"","stream_sequence":0,"letter":0}`
	if err != nil || string(line) != want {
		t.Errorf("got %s, %v\nwant %s", line, err, want)
	}
}

func TestStands(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 5)
	l := Letter{Key: "k", Source: stream.Ref{Stream: stream.Reports, Sequence: 5}, PublishedAt: at.UTC(), Replays: 2}
	for _, tt := range []struct {
		what string
		m    stream.Message
		want bool
	}{
		{"another report", stream.Message{Key: "other", Identity: l.Source, PublishedAt: at}, false},
		{"another stream", stream.Message{Key: "k", Identity: stream.Ref{Stream: stream.Requeued, Sequence: 5}, PublishedAt: at}, false},
		{"another sequence", stream.Message{Key: "k", Identity: stream.Ref{Stream: stream.Reports, Sequence: 6}, PublishedAt: at}, false},
		{"another time", stream.Message{Key: "k", Identity: l.Source, PublishedAt: at.Add(1)}, false},
		{"a replay of the letter", stream.Message{Key: "k", Ref: l.Source, Identity: stream.Ref{Stream: stream.Requeued, Sequence: 9}, PublishedAt: at}, false},
		{"a replay of the letter, in a queue that was made anew", stream.Message{
			Key: "k", Identity: l.Source, PublishedAt: at, Carried: stream.Carried{Replays: l.Replays + 1, ReplayOf: 12},
		}, false},
		{"the message", stream.Message{Key: "k", Identity: l.Source, PublishedAt: at}, true},
		{"the message, replayed before", stream.Message{Key: "k", Identity: l.Source, PublishedAt: at, Carried: stream.Carried{Replays: l.Replays}}, true},
	} {
		if got := l.Stands(tt.m); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"":                                   "file",
		"a/b.pdf":                            "file",
		"file:///a.pdf":                      "file",
		"://":                                "file",
		"C:\\a.pdf":                          "file",
		"https://host:8443/a?q":              "https://host:8443",
		"s3://reports/twr":                   "s3://reports",
		"sftp://user:secret@host/a.pdf?sig=": "sftp://host",
	} {
		if got := Upstream(uri); got != want {
			t.Errorf("%q: got %q, want %q", uri, got, want)
		}
	}
}

// What is read without a parser is what the parser would say.
func FuzzUpstream(f *testing.F) {
	for _, uri := range []string{
		"s3://reports/a.pdf", "https://Portal.example:8443/x?y#z", "https://ada:secret@portal/x", "file:///a", "a.pdf", "://x", "s3://", "S3://a/b", "s3://a b/c",
		"s3://a/%zz", "s3://a/b\x7f", "s3://a?b", "s3://a#b", "3s://a/b", "h-t.p://a/b", "s3://a.-9/\u00e9",
	} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		want := LocalFiles
		if u, err := url.Parse(uri); err == nil && u.Scheme != "" && u.Host != "" {
			want = u.Scheme + "://" + u.Host
		}
		if got := Upstream(uri); got != want {
			t.Errorf("the upstream of %q is %q, want %q", uri, got, want)
		}
	})
}
