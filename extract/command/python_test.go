//go:build linux

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

// The extractor of examples/python, run by the Python that is installed: without one this test fails.
func TestPythonExample(t *testing.T) {
	t.Parallel()
	c := program(t, Config{}, "python3 ../../examples/python/extract.py")
	for _, tt := range []struct {
		name, content string
		kind          report.Kind
		code          report.Code
		reason        string
	}{
		{"a web page", "<html>", report.KindPoison, report.CodeRejected, "code 65: not a PDF"},
		{"half a PDF", "%PDF-1.7\n/Type /Page", report.KindTransient, report.CodeTemporary, "code 75: maybe incomplete"},
		{"no pages", "%PDF-1.7\n/Type /Pages\n%%EOF\n", report.KindPoison, report.CodeRejected, "code 65: no page found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.Inspect(t.Context(), event, unnamed(t, tt.content))
			wants(t, err, tt.kind, tt.code, tt.reason)
		})
	}
	t.Run("a PDF", func(t *testing.T) {
		t.Parallel()
		f, err := os.Open(filepath.Join("..", "testdata", "corpus", "format-corpus-libreoffice-simple.pdf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := c.Inspect(t.Context(), event, f)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"site_id": "TWR-8842", "pages": 1, "bytes": 18847, "sha256": "77c969f113ba68b596796062e26748af4a548d561669df23c9269af36536887e"}`
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Error(diff)
		}
	})
}
