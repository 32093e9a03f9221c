package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files are inspected by hand without a store, whatever the file root.
func TestInspect(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_FILE_ROOT=elsewhere")
	const good, bad, page = "testdata/reports/twr4475_q2.pdf", "testdata/reports/twr9017_q2.pdf", "testdata/reports/twr7051_q2.pdf"
	if err := os.Symlink(filepath.Join(s.dir, good), filepath.Join(s.dir, "link.pdf")); err != nil {
		t.Fatal(err)
	}
	s.want(t, 0, []string{"inspect", good, "link.pdf"},
		"FILE VERDICT PAGES BYTES SAYS\n"+good+" accepted 30 16910 PDF 1.6, encrypted: Potato 0\nlink.pdf accepted 30 ")
	s.want(t, exitPerson, []string{"inspect", good, bad, page, "none.pdf", "."},
		" accepted 30 ", bad+" poison malformed-pdf unparseable structure ", page+" poison not-a-pdf ", "none.pdf transient not-found ", "\n. poison not-a-pdf ")
	s.want(t, exitUsage, []string{"inspect"})

	e := s.want(t, exitPerson, []string{"inspect", "--json", good, bad})
	lines := strings.Split(strings.TrimSpace(e.stdout), "\n")
	if len(lines) != 2 {
		t.Fatalf("got\n%s", e.stdout)
	}
	var first, second finding
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.File != good || !strings.Contains(string(first.Result), `"encrypted":true,"needs_ocr":false`) || first.Code != "" {
		t.Errorf("%v: %s", err, lines[0])
	}
	if err := json.Unmarshal([]byte(lines[1]), &second); err != nil || second.Kind != "poison" || second.Code != "malformed-pdf" || second.Result != nil {
		t.Errorf("%v: %s", err, lines[1])
	}
	if _, err := os.Stat(filepath.Join(s.dir, "guyline-data")); err == nil {
		t.Error("inspect made a store")
	}
	if e := s.do(t, "", "extract-child"); e.code != exitFailed || !strings.Contains(e.stderr, "guyline's own use") {
		t.Errorf("extract-child by hand: exit %d, %s", e.code, e.stderr)
	}
}
