package report_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

func TestReadList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     []string // "line site uri" or the row's error
		err      string
	}{
		{"empty", "", nil, "the list is empty"},
		{"a JSON array", "\n [{\"site_id\":\"a\",\"source_uri\":\"b\"}]", nil, "it is a JSON array; a list has one object on each line"},
		{"UTF-16", "\xff\xfes\x00i\x00", nil, "it is UTF-16; save it as UTF-8"},
		{"UTF-16, big end first", "\xfe\xff\x00s\x00i", nil, "it is UTF-16; save it as UTF-8"},
		{"JSON lines after an empty one", "\ufeff\r\n  {\"site_id\":\"a\",\"source_uri\":\"b\"}\n", []string{"2 a b"}, ""},
		{"a PDF", "%PDF-1.7\n%\xff\xff\n", nil, "it has no column site_id"},
		{"semicolons", "site_id;source_uri\na;b\n", nil, "separated by commas"},
		{"no header, and a password", "TWR-1,https://u:" + strings.Repeat("p", 99) + "@h/a.pdf\n", nil, `(it reads "TWR-1,https://h/a.pdf"; `},
		{"repeated column", "site_id,source_uri,x,x\n", nil, `the column "x" is repeated`},
		{"CSV", "\ufeffsite_id,firm,source_uri\na,Acme,b\n\n\"x, y\",,c\n", []string{"2 a b", "4 x, y c"}, ""},
		{"bad rows", "site_id,source_uri\na\n,b\na:b,c\nd,e\n",
			[]string{"line 2: 1 fields, but the header has 2", "line 3: invalid event: site_id is missing",
				`line 4: invalid event: site_id "a:b" contains ':'`, "5 d e"}, ""},
		{"a line with a broken quote", "site_id,source_uri\na,b\nc,d\"e\nf,g\n",
			[]string{"2 a b", `line 3: bare " in non-quoted-field`, "4 f g"}, ""},
		{"a quote missing", "site_id,source_uri\na,\"b\nc,d\ne,f\ng,h\n", nil, "lines 2 to 5 are one record: is a quote missing?"},
		{"two quotes that merge rows", "site_id,source_uri\na,\"b\nc,d\ne,f\"\ng,h\n", nil, "lines 2 to 4 are one record: is a quote missing?"},
		{"merged rows with too many fields", "site_id,source_uri\na,b,\"c\nd\",e\nf,g\n", nil, "lines 2 to 3 are one record"},
		{"a header of two lines", "site_id,source_uri,\"x\ny\"\na,b,c\n", nil, "lines 1 to 2 are one record"},
		{"bad due", "site_id,source_uri,due\na,b,soon\n", []string{`line 2: due "soon" is neither an RFC 3339 time nor a date like 2026-12-01`}, ""},
		{"JSON lines", "{\"site_id\":\"a\",\"source_uri\":\"b\"}\n\n{\"site_id\":\"c\",\"source_uri\":\"d\"}",
			[]string{"1 a b", "3 c d"}, ""},
		{"bad JSON", "{\"site_id\":\"a\"}\n{]\n", []string{"line 1: invalid event: source_uri is missing",
			"line 2: undecodable event: it is not JSON: invalid character ']'"}, ""},
		{"a line too long", "{\"x\":\"" + strings.Repeat("y", 2<<20) + "\"}\n{\"site_id\":\"a\",\"source_uri\":\"b\"}\n",
			[]string{"line 1: longer than 983040 bytes", "2 a b"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for row, err := range report.ReadList(strings.NewReader(tt.in)) {
				if err != nil {
					if tt.err == "" || !strings.Contains(err.Error(), tt.err) {
						t.Errorf("got error %v, want %q", err, tt.err)
					}
					return
				}
				if row.Err != nil {
					if diff := cmp.Diff(report.Event{}, row.Event); diff != "" {
						t.Errorf("line %d has an error and an event:\n%s", row.Line, diff)
					}
					got = append(got, row.Err.Error())
					continue
				}
				if e, err := report.Decode(row.Body); err != nil || e.Key() != row.Event.Key() {
					t.Errorf("line %d: body %s is another event: %v", row.Line, row.Body, err)
				}
				got = append(got, fmt.Sprint(row.Line, " ", row.Event.SiteID, " ", row.Event.SourceURI))
			}
			if tt.err != "" {
				t.Errorf("no error, want %q", tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// zeros is a file that never ends and has no line ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestReadListWithoutLineEnds(t *testing.T) {
	t.Parallel()
	for _, begins := range []string{"", "site_id,source_uri\n", "site_id,source_uri\na,b\n\""} {
		var last error
		for _, err := range report.ReadList(io.MultiReader(strings.NewReader(begins), zeros{})) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), "no end of the row within 983040 bytes") {
			t.Errorf("after %q: %v", begins, last)
		}
	}
}

// The body of a row of a CSV is what encoding/json makes of its event.
func FuzzReadListCSV(f *testing.F) {
	f.Add("site_id,source_uri,due,firm,sha256,Zone,\"a \"\"b\"\"\",é\n" + "TWR-1,https://h/a?b=1&c=<2>,2026-12-01,\"A\\cme, \"\"Ltd\"\"\",,\u2028,x,\n" +
		"TWR-2,b,2026-12-01T08:00:00.5+05:30,,,,,\n" + "TWR-3,c,,\tü\x7f,,\xff,0,ü\n" + "TWR-4,d,9999-12-31,,,,,\n" + "TWR-5,d,2026-12-01T00:00:00+24:00,,,,,\n" +
		"TWR-6,e,0001-01-01T00:00:00Z,," + strings.Repeat("0a", 32) + ",,,\n")
	f.Add("source_uri,metadata,site_id\nb,{},a\nb,,a\n")
	f.Fuzz(func(t *testing.T, list string) {
		for row, err := range report.ReadList(strings.NewReader(list)) {
			if err != nil || row.Err != nil || strings.HasPrefix(list, "{") || strings.HasPrefix(list, "\ufeff{") {
				continue
			}
			want, err := json.Marshal(row.Event)
			if err != nil || string(row.Body) != string(want) {
				t.Errorf("line %d is %s, want %s (%v)", row.Line, row.Body, want, err)
			}
		}
	})
}
