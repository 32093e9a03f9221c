package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/guyline/guyline/report"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	for _, tt := range []struct {
		name, body string
		want       error
	}{
		{"empty", ``, report.ErrUndecodable},
		{"cut off", `{"site_id": "a"`, report.ErrUndecodable},
		{"a list", `[]`, report.ErrUndecodable},
		{"null", `null`, report.ErrUndecodable},
		{"two objects", `{"site_id":"a","source_uri":"b"}{}`, report.ErrUndecodable},
		{"repeated name", `{"site_id":"a","source_uri":"b","site_id":"c"}`, report.ErrUndecodable},
		{"repeated name, escaped", `{"site_id":"a","source_uri":"b","\u0073ite_id":"c"}`, report.ErrUndecodable},
		{"repeated name inside", `{"site_id":"a","source_uri":"b","metadata":{"x":[{"y":1,"y":2}]}}`, report.ErrUndecodable},
		{"invalid UTF-8", "{\"site_id\":\"a\xff\",\"source_uri\":\"b\"}", report.ErrUndecodable},
		{"half a surrogate pair", `{"site_id":"a","source_uri":"\ud83d"}`, report.ErrUndecodable},
		{"low surrogate first", `{"site_id":"a","source_uri":"\ude00\ud83d"}`, report.ErrUndecodable},
		{"one level too deep", `{"site_id":"a","source_uri":"b","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, report.ErrUndecodable},
		{"too deep", `{"site_id":"a","source_uri":"b","x":` + deep + `}`, report.ErrUndecodable},
		{"too deep a list", `{"site_id":"a","source_uri":"b","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, report.ErrUndecodable},
		{"repeated name of many", `{"site_id":"a","source_uri":"b","metadata":{` + manyNames(500) + `,"00007":1}}`, report.ErrUndecodable},
		{"a quarter of a pair", `{"site_id":"a","source_uri":"\ud83d\ude"}`, report.ErrUndecodable},
		{"two high halves", `{"site_id":"a","source_uri":"\ud83d\ud83d\ude00"}`, report.ErrUndecodable},
		{"half a pair in a name", `{"site_id":"a","source_uri":"b","\udc00":1}`, report.ErrUndecodable},
		{"a raw line end in a string", "{\"site_id\":\"a\",\"source_uri\":\"b\n\"}", report.ErrUndecodable},
		{"a comma too many", `{"site_id":"a","source_uri":"b",}`, report.ErrUndecodable},
		{"a leading zero", `{"site_id":"a","source_uri":"b","x":01}`, report.ErrUndecodable},
		{"half a number", `{"site_id":"a","source_uri":"b","x":1.}`, report.ErrUndecodable},
		{"another space", "{\"site_id\":\"a\",\u00a0\"source_uri\":\"b\"}", report.ErrUndecodable},
		{"byte-order mark", "\ufeff{}", report.ErrUndecodable},
		{"other case", `{"Site_ID":"a","source_uri":"b"}`, report.ErrInvalid},
		{"no URI", `{"site_id":"a"}`, report.ErrInvalid},
		{"null site", `{"site_id":null,"source_uri":"b"}`, report.ErrInvalid},
		{"number as site", `{"site_id":7,"source_uri":"b"}`, report.ErrInvalid},
		{"colon", `{"site_id":"a:b","source_uri":"b"}`, report.ErrInvalid},
		{"tab", `{"site_id":"a\tb","source_uri":"b"}`, report.ErrInvalid},
		{"long site", `{"site_id":"` + strings.Repeat("é", 65) + `","source_uri":"b"}`, report.ErrInvalid},
		{"long URI", `{"site_id":"a","source_uri":"` + strings.Repeat("u", 2049) + `"}`, report.ErrInvalid},
		{"bad due", `{"site_id":"a","source_uri":"b","due":"tomorrow"}`, report.ErrInvalid},
		{"due in no zone of RFC 3339", `{"site_id":"a","source_uri":"b","due":"2026-12-01T00:00:00+24:00"}`, report.ErrInvalid},
		{"bad sha256", `{"site_id":"a","source_uri":"b","sha256":"abc"}`, report.ErrInvalid},
		{"metadata not an object", `{"site_id":"a","source_uri":"b","metadata":[1]}`, report.ErrInvalid},
		{"smallest", `{"site_id":"a","source_uri":"b"}`, nil},
		{"longest", `{"site_id":"` + strings.Repeat("s", 128) + `","source_uri":"` + strings.Repeat("u", 2048) + `"}`, nil},
		{"as deep as allowed", `{"site_id":"a","source_uri":"b","x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, nil},
		{"many names", `{"site_id":"a","source_uri":"b","metadata":{` + manyNames(500) + `}}`, nil},
		{"one name in many objects", `{"site_id":"a","source_uri":"b","metadata":{"site_id":{"site_id":[{"x":1},{"x":1}]},"x":1}}`, nil},
		{"null for what is optional", `{"site_id":"a","source_uri":"b","due":null,"sha256":null,"metadata":null}`, nil},
		{"a pair", `{"site_id":"a","source_uri":"\ud83d\ude00"}`, nil},
		{"an escaped backslash before u", `{"site_id":"a","source_uri":"C:\\\\ud83d"}`, nil},
		{"unknown fields", `{"site_id":"a","source_uri":"b","X":{"y":[1,2]}}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := report.Decode([]byte(tt.body)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	got, err := report.Decode([]byte(`{"site_id": "TWR 1", "source_uri": "x", "due": "2026-12-01", "metadata": {"n": 1.50}}`))
	if err != nil || got.SiteID != "TWR 1" || !got.Due.Equal(time.Date(2026, 12, 1, 23, 59, 59, 0, time.UTC)) || fmt.Sprint(got.Metadata["n"]) != "1.50" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Whatever deadline is taken can be written again: in UTC into a header, and in its zone and in UTC as JSON.
func TestParseDue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"2026-12-01":                "2026-12-01T23:59:59Z",
		"9999-12-31":                "9999-12-31T23:59:59Z",
		"2026-12-01T00:00:00+23:59": "2026-11-30T00:01:00Z",
		"9999-12-31T23:59:59-00:01": "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59-23:59": "9999-12-31T23:59:59Z",
		"0000-01-01T00:00:00+00:01": "0000-01-01T00:00:00Z",
		"2026-12-01T00:00:00+24:00": "",
		"2026-12-01T24:00:00Z":      "",
		"2026-02-30":                "",
	} {
		due, err := report.ParseDue(in)
		if want == "" {
			if err == nil {
				t.Errorf("%s is %v, want an error", in, due)
			}
			continue
		}
		_, zoned := json.Marshal(due)
		_, utc := json.Marshal(due.UTC())
		if text := report.FormatTime(due); text != want || !report.ParseTime(text).Equal(due) || errors.Join(err, zoned, utc) != nil {
			t.Errorf("%s is %s, want %s; %v", in, text, want, errors.Join(err, zoned, utc))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"site_id": "TWR-8842", "source_uri": "s3://r/x.pdf", "due": "2026-12-01T00:00:00Z", "metadata": {"a": [1, {"b": null}]}}`,
		`{"site_id":"\ud83d\ude00","source_uri":"b","site_id":"c"}`,
		`{"\u0073ite_id":"a","source_uri":"\/b\\","metadata":{"":[],"x":{"y":{},"z":[true,false,-1.5e+10,"\u00e9\n"]}},"y":0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := report.Decode(body)
		if !json.Valid(body) && !errors.Is(err, report.ErrUndecodable) {
			t.Fatalf("%q is not JSON: got %v", body, err)
		}
		if err != nil {
			if !errors.Is(err, report.ErrInvalid) && !errors.Is(err, report.ErrUndecodable) {
				t.Fatalf("an error of neither kind: %v", err)
			}
			return
		}
		asOthersRead(t, body, e)
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		e2, err := report.Decode(again)
		if err != nil || e2.Key() != e.Key() || !e2.Due.Equal(e.Due) {
			t.Fatalf("%s does not survive a round trip: %s, %v", body, again, err)
		}
	})
}

// asOthersRead checks that encoding/json finds the same in a body that was accepted.
func asOthersRead(t *testing.T, body []byte, e report.Event) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		t.Fatalf("%q was accepted: %v", body, err)
	}
	sha256, _ := fields["sha256"].(string)
	metadata, _ := fields["metadata"].(map[string]any)
	if e.SiteID != fields["site_id"] || e.SourceURI != fields["source_uri"] || e.SHA256 != sha256 {
		t.Fatalf("%q: got %+v, want %v", body, e, fields)
	}
	if diff := cmp.Diff(metadata, e.Metadata); diff != "" {
		t.Fatalf("%q: metadata (-want +got)\n%s", body, diff)
	}
}
