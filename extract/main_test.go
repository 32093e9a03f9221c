package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/report"
)

// This test binary is also the extraction process, and a worker that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "be-a-worker" {
		beAWorker(os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "extract-child" {
		if err := Child(context.Background(), os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const good = "testdata/corpus/format-corpus-libreoffice-simple.pdf" // 1 page

// beAWorker has an extraction process and waits to be killed.
func beAWorker(cache string) {
	x, err := Open(context.Background(), Config{CacheDir: cache}, slog.Default())
	if err != nil {
		panic(err)
	}
	if _, err := x.Extract(context.Background(), report.Event{SourceURI: good}); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("ready\n")
	select {}
}

// TestWarm leaves the compiled engine in the cache, which all test binaries share: make warm runs it alone, without
// the race detector.
func TestWarm(t *testing.T) { at(t, ".") }

// at is an extractor with dir as its file root.
func at(t testing.TB, dir string) *Extractor {
	t.Helper()
	cfg := Config{Source: source.Config{FileRoot: dir}, CacheDir: DefaultCacheDir()}
	x, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, x.Close()) })
	return x
}

// verdict is what Extract says of a path: "accept:<pages>" or "<kind>:<code>".
func verdict(t testing.TB, x *Extractor, uri string) (string, error) {
	t.Helper()
	result, err := x.Extract(t.Context(), report.Event{SiteID: "TWR-8842", SourceURI: uri})
	if err != nil {
		e := report.Classify(err)
		return fmt.Sprintf("%v:%s", e.Kind, e.Code), err
	}
	var facts Facts
	if err := json.Unmarshal(result, &facts); err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	return fmt.Sprintf("accept:%d", facts.Pages), nil
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
