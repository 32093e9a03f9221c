package keyvalue

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

func typicalEntry() Entry {
	return Entry{
		State: Done, SiteID: "TWR-8842", SourceURI: "s3://reports/2026/q2/twr8842_q2.pdf", Attempts: 1, Worker: "worker-7f9c/4711",
		Result: report.Result(`{"pages":12,"bytes":48211,"pdf":"1.7","title":"Annual inspection of tower 8842","producer":"Acme Reports 4.2",` +
			`"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`),
		Commit: "REPORTS/1234567/1", Time: time.Unix(1_800_000_000, 123_456_789).UTC(),
	}
}

// The golden values of the storage format: whoever changes one changes what every later version must read.
func TestGoldenEntries(t *testing.T) {
	t.Parallel()
	settled := Entry{
		State: Done, SiteID: "TWR-8842", SourceURI: "s3://reports/twr8842_q2.pdf", Result: report.Result(`{"pages": 12}`), Attempts: 2,
		Worker: "host/4711", Commit: "REPORTS/1/2", Time: time.Unix(1_800_000_000, 5).UTC(),
	}
	reopened := settled
	reopened.State, reopened.Replaces, reopened.Actor, reopened.Reason = Reopened, 7, "ann", "a \"corrected\" file\n<é>"
	reopened.ReopenedAt = time.Unix(1_800_000_100, 0).In(time.FixedZone("", 2*60*60))
	for _, tt := range []struct {
		name string
		e    Entry
		want string
	}{
		{"zero", Entry{}, `{"state":"","site_id":"","source_uri":"","attempts":0,"worker":"","commit":"","time":"0001-01-01T00:00:00Z"}`},
		{"settled", settled, `{"state":"done","site_id":"TWR-8842","source_uri":"s3://reports/twr8842_q2.pdf","result":{"pages":12},"attempts":2,` +
			`"worker":"host/4711","commit":"REPORTS/1/2","time":"2027-01-15T08:00:00.000000005Z"}`},
		{"reopened", reopened, `{"state":"reopened","site_id":"TWR-8842","source_uri":"s3://reports/twr8842_q2.pdf","result":{"pages":12},"attempts":2,` +
			`"worker":"host/4711","commit":"REPORTS/1/2","time":"2027-01-15T08:00:00.000000005Z","replaces":7,"actor":"ann",` +
			`"reason":"a \"corrected\" file\n\u003cé\u003e","reopened_at":"2027-01-15T10:01:40+02:00"}`},
	} {
		got, err := tt.e.encode()
		if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", tt.name, err, diff)
		}
	}
}

// An entry with every field that is stored, so that none can be added and forgotten in encode.
func TestEncodeEveryField(t *testing.T) {
	t.Parallel()
	var e Entry
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i).Addr().Interface().(type) {
		case *State:
			*f = Done
		case *string:
			*f = v.Type().Field(i).Name
		case *report.Result:
			*f = report.Result(`{}`)
		case *int:
			*f = i + 1
		case *uint64:
			*f = uint64(i + 1)
		case *time.Time:
			*f = time.Unix(int64(i), 0).UTC()
		case *[]byte:
		default:
			t.Fatalf("field %s has a type that this test does not know", v.Type().Field(i).Name)
		}
	}
	sameAsMarshal(t, e)
}

// sameAsMarshal checks that encode writes what json.Marshal does, or fails as it does, and that it can be read.
func sameAsMarshal(t *testing.T, e Entry) {
	t.Helper()
	got, err := e.encode()
	want, wantErr := json.Marshal(e)
	if string(got) != string(want) || (err == nil) != (wantErr == nil) {
		t.Fatalf("%+v\ngot  %s, %v\nwant %s, %v", e, got, err, want, wantErr)
	}
	if err != nil {
		return
	}
	if _, err := readEntry(got, 7); err != nil {
		t.Fatalf("%s cannot be read: %v", got, err)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("TWR-8842", "s3://r/<a>&b.pdf", []byte(`{"pages": 12}`), 1, int64(5), 0, uint64(0), "", "")
	f.Add("São Paulo", "\x00\x7f\xff\u2028\"\\", []byte("{\"a\":\"\u2029<\xff\"}"), -1, int64(-1), 5400, uint64(7), "ann", "a\nb")
	f.Add("", "", []byte(`{"a":1,}`), 0, int64(1)<<40, -86400, uint64(1)<<63, "ann", "")
	f.Fuzz(func(t *testing.T, site, uri string, result []byte, attempts int, seconds int64, zone int, replaces uint64, actor, reason string) {
		at := time.Unix(seconds, seconds%1e9).In(time.FixedZone("", zone%(48*60*60)))
		e := Entry{
			State: Done, SiteID: site, SourceURI: uri, Result: result, Attempts: attempts, Worker: actor, Commit: "REPORTS/1/2", Time: at,
			Replaces: replaces, Actor: actor, Reason: reason,
		}
		if actor != "" {
			e.State, e.ReopenedAt = Reopened, at
		}
		sameAsMarshal(t, e)
	})
}

// What is stored by another hand, or by a later version, is read as encoding/json reads it.
func FuzzReadEntry(f *testing.F) {
	for _, s := range []string{
		`{"state":"done","result":{"a":[1]},"time":"2027-01-15T08:00:00Z","later":{"x":null}}`, `{"STATE":"done"}`, `{`, `null`,
		`{"state":"done","state":"reopened"}`, `{"state":7}`, `{"site_id":"\ud83d","attempts":1.5}`, "{\"reason\":\"\xff\"}", ` {"replaces" : 3 } `,
	} {
		f.Add([]byte(s))
	}
	golden, _ := typicalEntry().encode()
	f.Add(golden)
	e := typicalEntry()
	e.State, e.Replaces, e.Actor, e.Reason, e.ReopenedAt = Reopened, 7, "ann", "corrected", e.Time
	for _, result := range []string{``, `{}`, `[1]`, `{"a":{"b":1,"attempts":2}}`, `{"a":"\",\"attempts\":"}`, `{"a":"é"}`} {
		e.Result = report.Result(result)
		golden, _ = e.encode()
		f.Add(golden)
		f.Add(bytes.ReplaceAll(golden, []byte(`"result":{`), []byte(`"result": {`)))
		f.Add(bytes.ReplaceAll(golden, []byte(`,"attempts"`), []byte(` ,"attempts"`)))
		f.Add(bytes.ReplaceAll(golden, []byte(`:1,`), []byte(`:01,`)))
		f.Add(bytes.ReplaceAll(golden, []byte(`ann`), []byte("an\n")))
		f.Add(bytes.ReplaceAll(golden, []byte(`456789Z`), []byte("456789+02:00")))
		f.Add(append(golden, ' '))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) == 0 {
			return
		}
		got, err := readEntry(value, 7)
		want := Entry{}
		wantErr := json.Unmarshal(value, &want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: got %v, want %v", value, err, wantErr)
		}
		if err != nil {
			return
		}
		want.Revision, want.Raw = 7, value
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-want +got)\n%s", value, diff)
		}
	})
}

func BenchmarkEntryEncode(b *testing.B) {
	e := typicalEntry()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEntryDecode(b *testing.B) {
	value, err := typicalEntry().encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readEntry(value, 1); err != nil {
			b.Fatal(err)
		}
	}
}
