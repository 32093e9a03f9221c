package pdf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

const (
	corpus = "../testdata/corpus"
	bomb   = "bomb-objstm-1gib.pdf" // takes seconds
	limit  = 2 * time.Minute        // the race detector slows the engine
)

// shared is one engine for all tests of this package, with the cache that the program and all tests share.
var shared = sync.OnceValues(func() (*Engine, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return Open(context.Background(), filepath.Join(dir, "guyline"))
})

func engine(t testing.TB) *Engine {
	t.Helper()
	e, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func inspect(t *testing.T, b []byte) (Document, error) {
	t.Helper()
	return engine(t).Inspect(t.Context(), bytes.NewReader(b), int64(len(b)), limit)
}

// made is a PDF of n pages with this content stream on each.
func made(n int, content string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count %d/Kids[", n)
	for i := range n {
		fmt.Fprintf(&b, "%d 0 R ", 5+i)
	}
	fmt.Fprintf(&b, "]>>endobj\n3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n4 0 obj<</Length %d>>stream\n%s\nendstream endobj\n", len(content), content)
	for i := range n {
		fmt.Fprintf(&b, "%d 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents 4 0 R>>endobj\n", 5+i)
	}
	b.WriteString("trailer<</Root 1 0 R>>\n%%EOF\n")
	return b.Bytes()
}

func show(text string) string { return "BT /F 1 Tf 10 700 Td (" + text + ") Tj ET" }

func TestDocument(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		file []byte
		want Document
	}{
		{"office document", read(t, "format-corpus-libreoffice-simple.pdf"), Document{
			Pages: 1, Version: "1.4", Producer: "LibreOffice 3.5", Created: time.Date(2012, 9, 19, 11, 14, 51, 0, time.UTC),
			TextLengths: []int{48}, FirstPageText: "This is simple document, created in Open Office.",
		}},
		{"text", made(3, show(`Tower\040\040  8842`)), Document{
			Pages: 3, Version: "1.4", TextLengths: []int{10, 10, 10}, FirstPageText: "Tower 8842",
		}},
		{"no text layer", made(2, "0 0 m 100 100 l S"), Document{Pages: 2, Version: "1.4", TextLengths: []int{0, 0}}},
		{"more pages than are read", made(1001, show("A")), Document{
			Pages: 1001, Version: "1.4", TextLengths: slices.Repeat([]int{1}, 1000), TextPartial: true, FirstPageText: "A",
		}},
		{"a page that fails", bytes.Replace(made(3, show("A")), []byte("6 0 obj<</Type/Page/"), []byte("6 0 obj<</Type/Font/"), 1), Document{
			Pages: 3, Version: "1.4", TextLengths: []int{1}, TextPartial: true, FirstPageText: "A",
		}},
		{"a long text", made(1, show(strings.Repeat("x", 5000))), Document{
			Pages: 1, Version: "1.4", TextLengths: []int{5000}, FirstPageText: strings.Repeat("x", 2048),
		}},
		{"encrypted for its owner", read(t, "qpdf-v4-aes-clearmeta.pdf"), Document{
			Pages: 30, Version: "1.6", Encrypted: true, Created: time.Date(2003, 10, 10, 21, 4, 32, 0, time.UTC),
			TextLengths: slices.Concat(slices.Repeat([]int{8}, 10), slices.Repeat([]int{9}, 20)), FirstPageText: "Potato 0",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := inspect(t, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(got.TextLengths); got.TextPartial && n < len(tt.want.TextLengths) { // the time for text was over
				tt.want.TextLengths, tt.want.TextPartial = tt.want.TextLengths[:n], true
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The largest JSON that a document can have.
func TestSize(t *testing.T) {
	t.Parallel()
	worst := Document{
		Pages: 1 << 31, Title: strings.Repeat("<", report.MaxReason), Producer: strings.Repeat("<", report.MaxReason),
		FirstPageText: strings.Repeat("<", maxFirstPageText), TextLengths: slices.Repeat([]int{1 << 31}, maxTextPages),
	}
	if b, err := json.Marshal(worst); err != nil || len(b) > 40<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// A disk that fails under the engine is no fault of the file.
func TestReadError(t *testing.T) {
	t.Parallel()
	_, err := engine(t).Inspect(t.Context(), brokenDisk{}, 1<<20, limit)
	if e := report.Classify(err); e.Kind != report.KindTransient || e.Code != report.CodeConnection {
		t.Errorf("got %v %s: %v", e.Kind, e.Code, err)
	}
}

type brokenDisk struct{}

func (brokenDisk) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

func TestLimits(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b := read(t, bomb)
	_, err := engine(t).Inspect(t.Context(), bytes.NewReader(b), int64(len(b)), 50*time.Millisecond)
	if e := report.Classify(err); e.Kind != report.KindPoison || e.Code != report.CodeKilledTime {
		t.Errorf("over its time: %v", err)
	}
	for want, ctx := range map[error]context.Context{context.Canceled: ended, context.DeadlineExceeded: soon} {
		if want == context.DeadlineExceeded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
		}
		_, err := engine(t).Inspect(ctx, bytes.NewReader(b), int64(len(b)), limit)
		if _, ok := errors.AsType[*report.Error](err); ok || !errors.Is(err, want) {
			t.Errorf("got %v, want plain %v", err, want)
		}
	}
}

func FuzzInspect(f *testing.F) {
	names, err := filepath.Glob(filepath.Join(corpus, "*.pdf"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		if filepath.Base(name) != bomb {
			f.Add(read(f, filepath.Base(name)))
		}
	}
	e := engine(f)
	codes := []report.Code{report.CodeMalformedPDF, report.CodeNoPages, report.CodeEncrypted,
		report.CodeKilledMemory, report.CodeKilledTime, report.CodeCrashed}
	f.Fuzz(func(t *testing.T, b []byte) {
		doc, err := e.Inspect(t.Context(), bytes.NewReader(b), int64(len(b)), limit)
		if err == nil {
			if line, err := json.Marshal(doc); err != nil || doc.Pages < 1 || len(line) > 40<<10 {
				t.Fatalf("accepted with %d pages and %d bytes: %v", doc.Pages, len(line), err)
			}
			return
		}
		if e := report.Classify(err); e.Kind != report.KindPoison || !slices.Contains(codes, e.Code) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v %s: %v", e.Kind, e.Code, err)
		}
	})
}
