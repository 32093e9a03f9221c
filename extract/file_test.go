package extract

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	root := filepath.Join(outer, "root")
	pdf := read(t, good)
	write(t, filepath.Join(outer, "secret.pdf"), pdf)
	write(t, filepath.Join(root, "a.pdf"), pdf)
	write(t, filepath.Join(root, "q2", "b c.pdf"), pdf)
	write(t, filepath.Join(root, "a.PDF.part"), pdf)
	write(t, filepath.Join(root, "empty.pdf"), nil)
	write(t, filepath.Join(root, "half.pdf"), pdf[:len(pdf)/2])
	write(t, filepath.Join(root, "large.pdf"), nil)
	must(t, os.Truncate(filepath.Join(root, "large.pdf"), 1<<40))
	must(t, os.Symlink("a.pdf", filepath.Join(root, "inside.pdf")))
	must(t, os.Symlink("q2", filepath.Join(root, "q3")))
	must(t, os.Symlink("../secret.pdf", filepath.Join(root, "escape.pdf")))
	must(t, os.Symlink(filepath.Join(outer, "secret.pdf"), filepath.Join(root, "absolute.pdf")))
	must(t, os.Symlink("..", filepath.Join(root, "up")))
	must(t, os.Symlink("loop.pdf", filepath.Join(root, "loop.pdf")))
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo.pdf"), 0o644))
	x := at(t, root)
	for _, tt := range []struct{ uri, want string }{
		{"missing.pdf", "transient:not-found"},
		{"missing/a.pdf", "transient:not-found"},
		{"a.pdf/a.pdf", "poison:not-found"},
		{"loop.pdf", "poison:not-found"},
		{strings.Repeat("n", 300) + ".pdf", "poison:not-found"},
		{"escape.pdf", "poison:outside-root"},
		{"absolute.pdf", "poison:outside-root"},
		{"up/secret.pdf", "poison:outside-root"},
		{filepath.Join(outer, "secret.pdf"), "poison:outside-root"},
		{"file://" + outer + "/root/%2e%2e/secret.pdf", "poison:outside-root"},
		{".", "poison:not-a-pdf"},
		{"q2", "poison:not-a-pdf"},
		{"fifo.pdf", "poison:not-a-pdf"},
		{"large.pdf", "poison:too-large"},
		{"a.PDF.part", "transient:still-uploading"},
		{"q2/A.TMP", "transient:still-uploading"},
		{"empty.pdf", "transient:still-uploading"},
		{"half.pdf", "transient:still-uploading"},
		{"a.pdf", "accept:1"},
		{"q3/b c.pdf", "accept:1"},
		{"inside.pdf", "accept:1"},
		{"up/root/a.pdf", "poison:outside-root"},
		{root + "/a.pdf", "accept:1"},
		{"file://" + root + "/q2/b%20c.pdf", "accept:1"},
	} {
		got, err := verdict(t, x, tt.uri)
		if got != tt.want || err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), tt.uri)) {
			t.Errorf("%s: got %s (%v), want %s", tt.uri, got, err, tt.want)
		}
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		kind report.Kind
		code report.Code
	}{
		{errors.New("other"), report.KindPoison, report.CodeUnclassified},
		{syscall.EINVAL, report.KindPoison, report.CodeUnclassified},
		{syscall.EACCES, report.KindPoison, report.CodeForbidden},
		{syscall.EPERM, report.KindPoison, report.CodeForbidden},
		{syscall.EISDIR, report.KindPoison, report.CodeNotAPDF},
		{syscall.ENOENT, report.KindTransient, report.CodeNotFound},
		{syscall.ETIMEDOUT, report.KindTransient, report.CodeTimeout},
		{syscall.EIO, report.KindTransient, report.CodeConnection},
		{syscall.ESTALE, report.KindTransient, report.CodeConnection},
		{syscall.EMFILE, report.KindTransient, report.CodeUnclassified},
		{syscall.ENOSPC, report.KindTransient, report.CodeUnclassified},
	} {
		err := fileError(&fs.PathError{Op: "openat", Path: "a.pdf", Err: tt.err})
		if e := report.Classify(err); e.Kind != tt.kind || e.Code != tt.code {
			t.Errorf("%v: got %v %s, want %v %s", tt.err, e.Kind, e.Code, tt.kind, tt.code)
		}
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

// A verdict on a file that changes while it is read would be a verdict on nothing.
func TestChangingFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, "a.pdf")
	write(t, path, read(t, good))
	f, err := openFile(at(t, root).root, "a.pdf", 1<<20)
	must(t, err)
	defer f.Close()
	must(t, f.settled())
	must(t, os.Chtimes(path, time.Time{}, f.changed.Add(time.Second)))
	if err := f.settled(); report.Classify(err).Code != report.CodeStillUploading {
		t.Errorf("after a rewrite: %v", err)
	}
	must(t, os.Truncate(path, 100))
	must(t, os.Chtimes(path, time.Time{}, f.changed))
	if err := f.settled(); report.Classify(err).Code != report.CodeStillUploading {
		t.Errorf("after a truncation: %v", err)
	}
	if _, err := digest(t.Context(), f); report.Classify(err).Code != report.CodeShortRead {
		t.Errorf("digest of a truncated file: %v", err)
	}
}
