package extract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/guyline/guyline/report"
)

const good = "testdata/corpus/format-corpus-libreoffice-simple.pdf" // 1 page

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	b := read(t, good)
	sum := sha256.Sum256(b)
	event := report.Event{SiteID: "TWR 1", SourceURI: filepath.Base(good), SHA256: strings.ToUpper(hex.EncodeToString(sum[:]))}
	result, err := at(t, filepath.Dir(good)).Extract(t.Context(), event)
	must(t, err)
	want := `{"version":1,"site_id":"TWR 1","pages":1,"bytes":18847,"sha256":"` + hex.EncodeToString(sum[:]) +
		`","pdf_version":"1.4","producer":"LibreOffice 3.5","created":"2012-09-19T11:14:51Z"}`
	if diff := cmp.Diff(want, string(result)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "a.pdf"), read(t, good))
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{FileRoot: filepath.Join(root, "none")}, "no such file or directory"},
		{Config{FileRoot: filepath.Join(root, "a.pdf")}, "not a directory"},
		{Config{FileRoot: root, MaxBytes: 1 << 31}, "allowed are 1 to 2147483647"},
		{Config{FileRoot: root, MaxBytes: -1}, "allowed are 1 to 2147483647"},
		{Config{FileRoot: root, CacheDir: filepath.Join(root, "a.pdf")}, "cache"},
	} {
		if _, err := Open(t.Context(), tt.cfg, slog.Default()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		}
	}
	// Stopping the program does not stop inspections under way.
	ctx, cancel := context.WithCancel(t.Context())
	x, err := Open(ctx, Config{FileRoot: root, CacheDir: DefaultCacheDir()}, slog.Default())
	must(t, err)
	cancel()
	if got, err := verdict(t, x, "a.pdf"); got != "accept:1" {
		t.Errorf("got %s (%v)", got, err)
	}
	must(t, x.Close())
}

func TestParseDate(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        "0001-01-01T00:00:00Z",
		"yesterday":               "0001-01-01T00:00:00Z",
		"D:20261301":              "0001-01-01T00:00:00Z",
		"D:20260401083000-99'99'": "0001-01-01T00:00:00Z",
		"D:00000101000000+05'00'": "0001-01-01T00:00:00Z",
		"D:2026":                  "2026-01-01T00:00:00Z",
		"D:20210729":              "2021-07-29T00:00:00Z",
		"20260401083000":          "2026-04-01T08:30:00Z",
		"D:20260401083000Z":       "2026-04-01T08:30:00Z",
		"D:20151212184957Z00'00'": "2015-12-12T18:49:57Z",
		"D:20260401083000-05'00'": "2026-04-01T13:30:00Z",
		"D:20260401083000+05'30":  "2026-04-01T03:00:00Z",
		"D:20260401083000+02":     "2026-04-01T06:30:00Z",
	} {
		if got := parseDate(in).Format(time.RFC3339); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
		if _, err := json.Marshal(parseDate(in)); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// The sample list of the README, in the order of its rows.
func TestOvernightList(t *testing.T) {
	t.Parallel()
	list, err := os.Open("../testdata/overnight.csv")
	must(t, err)
	defer list.Close()
	x := at(t, "..")
	var got []string
	for row, err := range report.ReadList(list) {
		must(t, err)
		must(t, row.Err)
		v, _ := verdict(t, x, row.Event.SourceURI)
		got = append(got, fmt.Sprintf("%s %s", filepath.Base(row.Event.SourceURI), v))
	}
	v, _ := verdict(t, x, "testdata/repaired/twr9017_q2.pdf")
	got = append(got, "repaired "+v)
	want := []string{
		"twr8842_q2.pdf accept:30", "twr1180_q2.pdf accept:1", "twr9017_q2.pdf poison:malformed-pdf", "twr2231_q2.pdf accept:7",
		"twr3307_q2.pdf accept:3", "twr6604_q2.pdf poison:no-pages", "twr4475_q2.pdf accept:30", "twr7051_q2.pdf poison:not-a-pdf",
		"twr5120_q2.pdf accept:2", "twr7733_q2.pdf transient:not-found", "twr1944_q2.pdf accept:1", "twr8842_q2.pdf accept:30",
		"repaired accept:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
