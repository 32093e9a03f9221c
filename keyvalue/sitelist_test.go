package keyvalue_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/guyline/guyline/keyvalue"
)

func TestReadSites(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	for _, tt := range []struct {
		what string
		list io.Reader
		want []string
		err  string // a part of it
	}{
		{"empty", strings.NewReader(""), nil, "it is empty"},
		{"only a header", strings.NewReader("site_id\n"), nil, "names no site"},
		{"no such column", strings.NewReader("site,firm\nNY,Acme\n"), nil, "line 1"},
		{"a broken header", strings.NewReader("\"site_id\nNY\n"), nil, "line 1"},
		{"CSV, an invalid site", strings.NewReader("site_id\nNY\na:b\n"), nil, "line 3"},
		{"CSV, no site", strings.NewReader("firm,site_id\nAcme,\n"), nil, "line 2"},
		{"CSV, a field too many", strings.NewReader("site_id\nNY\na,b\n"), nil, "line 3"},
		{"CSV, a broken quote", strings.NewReader("site_id\nNY\n\"a\n"), nil, "line 3"},
		{"CSV, rows merged by quotes", strings.NewReader("site_id,firm\nNY,\"A\nLA,B\nSF,\"\n"), nil, "lines 2 to 4 are one record"},
		{"CSV, without an end", zeros{}, nil, "no end of the row within 983040 bytes"},
		{"CSV, a row without an end", io.MultiReader(strings.NewReader("site_id\nNY\n"), zeros{}), nil, "line 3: no end of the row"},
		{"CSV, cut off", io.MultiReader(strings.NewReader("site_id\nNY\n"), iotest.ErrReader(cut)), nil, "cut off"},
		{"JSON, no site", strings.NewReader("{\"site_id\":\"NY\"}\n\n{}\n"), nil, "line 3"},
		{"JSON, an invalid site", strings.NewReader("{\"site_id\":\"NY\"}\n{\"site_id\":\"a:b\"}\n"), nil, "line 2"},
		{"JSON, another type", strings.NewReader("{\"site_id\":1}\n"), nil, "line 1: site_id is not a string"},
		{"a JSON array", strings.NewReader("[{\"site_id\":\"NY\"}]"), nil, "it is a JSON array"},
		{"UTF-16", strings.NewReader("\xff\xfes\x00i\x00"), nil, "it is UTF-16"},
		{"JSON, then something else", strings.NewReader("{\"site_id\":\"NY\"}\nNY\n"), nil, "line 2"},
		{"JSON, too long a line", strings.NewReader("{\"site_id\":\"NY\"}\n{" + strings.Repeat(" ", 1<<20)), nil, "line 2"},
		{"JSON, another case", strings.NewReader("{\"SITE_ID\":\"Y\"}\n"), nil, "site_id is missing"},
		{"JSON, a repeated name", strings.NewReader("{\"site_id\":\"Z\",\"site_id\":\"Q\"}\n"), nil, "is repeated"},
		{"JSON, not UTF-8", strings.NewReader("{\"site_id\":\"\xff\"}\n"), nil, "not valid UTF-8"},
		{"JSON, cut off", io.MultiReader(strings.NewReader("{\"site_id\":\"NY\"}\n"), iotest.ErrReader(cut)), nil, "cut off"},

		{"CSV", strings.NewReader("firm,site_id\r\nAcme,NY\r\n\"A, B\",\"São Paulo\"\r\n,NY\r\n,\"NY 12.4\""), []string{"NY", "São Paulo", "NY 12.4"}, ""},
		{"CSV with a byte order mark", strings.NewReader("\ufeffsite_id\nNY\n"), []string{"NY"}, ""},
		{"JSON", strings.NewReader("{\"site_id\":\"NY\"}\n \n{\"x\":1,\"site_id\":\"a=b_c\"}\n{\"site_id\":\"NY\"}"), []string{"NY", "a=b_c"}, ""},
		{"JSON after an empty line", strings.NewReader("\r\n {\"site_id\":\"NY\"}\n"), []string{"NY"}, ""},
		{"JSON with a byte order mark", strings.NewReader("\ufeff{\"site_id\":\"NY\"}\n"), []string{"NY"}, ""},
		{"JSON, a long line", strings.NewReader(`{"metadata":"` + strings.Repeat("x", 500<<10) + `","site_id":"NY"}`), []string{"NY"}, ""},
	} {
		got, err := keyvalue.ReadSites(tt.list)
		switch {
		case tt.err == "" && (err != nil || !slices.Equal(got, tt.want)):
			t.Errorf("%s: got %q, %v; want %q", tt.what, got, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: got %q, %v; want an error with %q", tt.what, got, err, tt.err)
		}
	}
}

// zeros is a file that never ends and has no line ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
