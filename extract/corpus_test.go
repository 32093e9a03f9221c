package extract

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const bomb = "bomb-objstm-1gib.pdf" // takes seconds

// manifest reads a table whose first line names its columns.
func manifest(t testing.TB, path string) []map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(bytes.NewReader(b))
	r.Comma, r.LazyQuotes = '\t', true
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	x := at(t, "testdata/corpus")
	for _, row := range manifest(t, "testdata/corpus/manifest.tsv") {
		t.Run(row["file"], func(t *testing.T) {
			t.Parallel()
			got, err := verdict(t, x, row["file"])
			if row["file"] == bomb && got == "poison:killed-time" { // its memory or its time: on a busy machine either is used up first
				got = row["expected"]
			}
			if got != row["expected"] {
				t.Errorf("got %s (%v), want %s", got, err, row["expected"])
			}
		})
	}
}

// The large corpus lies beside the repository on the developers' machines. The committed sample of it stands in
// for it elsewhere.
func TestLargeCorpus(t *testing.T) {
	t.Parallel()
	dir, name := "../../shared/pdfs", "path"
	if _, err := os.Stat(filepath.Join(dir, "manifest.tsv")); err != nil {
		dir, name = "testdata/corpus", "file"
	}
	// Verdicts that are wrong, and why they stay.
	wrong := map[string]string{
		"awkward/qpdf__deep-pages.pdf":           "its page lies deeper than PDFium follows a page tree; a page that cannot be loaded cannot be vouched for",
		"hostile-derived/deep-page-tree-20k.pdf": "the same, 20,000 levels deep",
	}
	x := at(t, dir)
	for _, row := range manifest(t, filepath.Join(dir, "manifest.tsv")) {
		if strings.EqualFold(filepath.Base(row[name]), bomb) {
			continue // TestCorpus has it
		}
		t.Run(row[name], func(t *testing.T) {
			t.Parallel()
			got, err := verdict(t, x, row[name])
			right := slices.Contains(allowed(t, filepath.Join(dir, row[name]), row), got)
			if why, known := wrong[row[name]]; known == right {
				t.Errorf("got %s (%v), want %s (%s); known to be wrong: %t %s", got, err, row["expected"], row["basis"], known, why)
			}
		})
	}
}

// allowed lists the verdicts that fit what the corpus says about a file.
func allowed(t *testing.T, path string, row map[string]string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refusals := []string{"poison:malformed-pdf", "poison:no-pages", "poison:killed-memory", "poison:killed-time"}
	switch {
	case len(b) == 0:
		refusals = []string{"transient:still-uploading"}
	case !bytes.Contains(b[:min(len(b), 1024)], []byte("%PDF-")):
		refusals = []string{"poison:not-a-pdf"}
	case row["tag"] == "unknown password":
		refusals = []string{"poison:encrypted"}
	case !bytes.Contains(b[max(0, len(b)-1024):], []byte("%%EOF")):
		refusals = []string{"transient:still-uploading"}
	}
	answer, pages, _ := strings.Cut(row["expected"], ":")
	switch answer {
	case "accept":
		return []string{"accept:" + pages}
	case "either":
		return append(refusals, "accept:"+pages)
	case "reject":
		return refusals
	}
	return []string{row["expected"]}
}
