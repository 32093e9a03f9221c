package extract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/report"
)

func TestFacts(t *testing.T) {
	t.Parallel()
	b := read(t, good)
	sum := sha256.Sum256(b)
	event := report.Event{SiteID: "TWR 1", SourceURI: filepath.Base(good), SHA256: strings.ToUpper(hex.EncodeToString(sum[:]))}
	result, err := at(t, filepath.Dir(good)).Extract(t.Context(), event)
	must(t, err)
	want := `{"version":1,"site_id":"TWR 1","pages":1,"bytes":18847,"sha256":"` + hex.EncodeToString(sum[:]) +
		`","pdf_version":"1.4","producer":"LibreOffice 3.5","created":"2012-09-19T11:14:51Z","encrypted":false,` +
		`"needs_ocr":false,"text_lengths":[48],"first_page_text":"This is simple document, created in Open Office."}`
	if diff := cmp.Diff(want, string(result)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "a.pdf"), read(t, good))
	here := source.Config{FileRoot: root}
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Source: source.Config{FileRoot: filepath.Join(root, "none")}}, "no such file or directory"},
		{Config{Source: source.Config{FileRoot: root, MaxBytes: -1}}, "must be above 0"},
		{Config{Source: here, CacheDir: filepath.Join(root, "a.pdf")}, "cache"},
		{Config{Source: here, Self: []string{filepath.Join(root, "none")}}, "no such file or directory"},
		{Config{Source: here, Self: []string{"/proc/self/exe", "-test.run=^$"}}, "start an extraction process"},
		{Config{Source: here, Command: "none-of-this-name"}, "find the extractor"},
	} {
		if _, err := Open(t.Context(), tt.cfg, slog.Default()); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		}
	}
	// Stopping the program does not stop inspections under way.
	ctx, cancel := context.WithCancel(t.Context())
	x, err := Open(ctx, Config{Source: here, CacheDir: DefaultCacheDir()}, slog.Default())
	must(t, err)
	cancel()
	if got, err := verdict(t, x, "a.pdf"); got != "accept:1" {
		t.Errorf("got %s (%v)", got, err)
	}
	must(t, x.Close())
}

func TestCommand(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "a.doc"), []byte("no PDF, which is the command's business"))
	x, err := Open(t.Context(), Config{Source: source.Config{FileRoot: root}, Command: "cat"}, slog.Default())
	must(t, err)
	defer x.Close()
	result, err := x.Extract(t.Context(), report.Event{SiteID: "a", SourceURI: "a.doc"})
	if want := `{"site_id":"a","source_uri":"a.doc"}`; err != nil || strings.TrimSpace(string(result)) != want {
		t.Errorf("got %s (%v), want %s", result, err, want)
	}
	_, err = x.Extract(t.Context(), report.Event{SiteID: "a", SourceURI: "a.doc", SHA256: strings.Repeat("0", 64)})
	if e := report.Classify(err); e.Kind != report.KindPoison || e.Code != report.CodeSHA256Mismatch {
		t.Errorf("another file than published: %v", err)
	}
}

func TestSHA256(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	pdf := read(t, good)
	write(t, filepath.Join(root, "whole.pdf"), pdf)
	write(t, filepath.Join(root, "half.pdf"), pdf[:len(pdf)/2])
	x := at(t, root)
	for uri, want := range map[string]report.Code{"whole.pdf": report.CodeSHA256Mismatch, "half.pdf": report.CodeStillUploading} {
		_, err := x.Extract(t.Context(), report.Event{SiteID: "a", SourceURI: uri, SHA256: strings.Repeat("0", 64)})
		if got := report.Classify(err).Code; err == nil || got != want {
			t.Errorf("%s: got %v, want %s", uri, err, want)
		}
	}
}

// What a file is, its bytes say, not the server; and what came instead is in the reason.
func TestDownloads(t *testing.T) {
	t.Parallel()
	pdf := read(t, good)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		switch r.URL.Path {
		case "/page.pdf":
			fmt.Fprint(w, "<html>Please sign in</html>")
		case "/report.html":
			w.Header().Set("Content-Type", "text/html")
			w.Write(pdf)
		case "/half.pdf":
			w.Write(pdf[:len(pdf)/2])
		}
	}))
	t.Cleanup(server.Close)
	temp := t.TempDir()
	cfg := Config{Source: source.Config{FileRoot: temp, TempDir: temp, AllowHosts: []string{"127.0.0.1"}}, CacheDir: DefaultCacheDir()}
	x, err := Open(t.Context(), cfg, slog.Default())
	must(t, err)
	defer x.Close()
	for path, want := range map[string]string{
		"/page.pdf": "poison:not-a-pdf", "/report.html": "accept:1", "/half.pdf": "transient:still-uploading",
	} {
		got, err := verdict(t, x, server.URL+path+"?token=secret")
		if got != want || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %s (%v), want %s", path, got, err, want)
		}
		for _, part := range []string{"200", "application/pdf", "text/html", `"<html>Please sign in</html>"`} {
			if path == "/page.pdf" && !strings.Contains(err.Error(), part) {
				t.Errorf("%v: lacks %s", err, part)
			}
		}
	}
	left, err := os.ReadDir(temp)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An error names the report it is about, and shows no password in its URI, however that is written.
func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	x := at(t, "..")
	for _, uri := range []string{
		"https://u:secret@h/a.pdf", "https://u:a secret@h/a.pdf", "sftp://u:secret/1@h/a.pdf", "https:/u:secret@h/a.pdf", "https://h/a b.pdf?x y=secret",
	} {
		_, err := x.Extract(t.Context(), report.Event{SiteID: "TWR-1", SourceURI: uri})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "h/a") {
			t.Errorf("%s: %v", uri, err)
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
