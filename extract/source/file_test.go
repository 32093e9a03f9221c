package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	root := filepath.Join(outer, "root")
	body := pdf()
	write(t, filepath.Join(outer, "secret.pdf"), body)
	write(t, filepath.Join(root, "a.pdf"), body)
	write(t, filepath.Join(root, "q2", "b c.pdf"), body)
	write(t, filepath.Join(root, "empty.pdf"), nil)
	write(t, filepath.Join(root, "large.pdf"), nil)
	must(t, os.Truncate(filepath.Join(root, "large.pdf"), 1<<40))
	must(t, os.Symlink("a.pdf", filepath.Join(root, "inside.pdf")))
	must(t, os.Symlink("q2", filepath.Join(root, "q3")))
	must(t, os.Symlink("../secret.pdf", filepath.Join(root, "escape.pdf")))
	must(t, os.Symlink(filepath.Join(outer, "secret.pdf"), filepath.Join(root, "absolute.pdf")))
	must(t, os.Symlink("..", filepath.Join(root, "up")))
	must(t, os.Symlink("loop.pdf", filepath.Join(root, "loop.pdf")))
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo.pdf"), 0o644))
	s := open(t, Config{FileRoot: root})
	for _, tt := range []struct{ uri, want string }{
		{"missing.pdf", "transient not-found"},
		{"missing/a.pdf", "transient not-found"},
		{"a.pdf/a.pdf", "poison not-found"},
		{"loop.pdf", "poison not-found"},
		{strings.Repeat("n", 300) + ".pdf", "poison not-found"},
		{"escape.pdf", "poison outside-root"},
		{"absolute.pdf", "poison outside-root"},
		{"up/secret.pdf", "poison outside-root"},
		{"up/root/a.pdf", "poison outside-root"},
		{filepath.Join(outer, "secret.pdf"), "poison outside-root"},
		{"file://" + outer + "/root/%2e%2e/secret.pdf", "poison outside-root"},
		{".", "poison not-a-pdf"},
		{"q2", "poison not-a-pdf"},
		{"fifo.pdf", "poison not-a-pdf"},
		{"large.pdf", "poison too-large"},
		{"empty.pdf", "transient still-uploading 30s"},
		{"a.pdf", "fine"},
		{"q3/b c.pdf", "fine"},
		{"inside.pdf", "fine"},
		{root + "/a.pdf", "fine"},
		{"file://" + root + "/q2/b%20c.pdf", "fine"},
	} {
		if got, err := fetched(t, s, tt.uri, body); got != tt.want {
			t.Errorf("%s: got %s (%v), want %s", tt.uri, got, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, uri := range []string{"a.pdf", "missing.pdf"} {
		_, err := s.Fetch(ctx, uri)
		kindless(t, err, context.Canceled)
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		errors.New("other"): "poison unclassified",
		syscall.EINVAL:      "poison unclassified",
		syscall.EACCES:      "poison forbidden",
		syscall.EPERM:       "poison forbidden",
		syscall.EISDIR:      "poison not-a-pdf",
		syscall.ENXIO:       "poison not-a-pdf",
		syscall.ENOENT:      "transient not-found",
		syscall.ENOTDIR:     "poison not-found",
		syscall.ETIMEDOUT:   "transient timeout",
		syscall.EAGAIN:      "transient timeout",
		syscall.EIO:         "transient connection",
		syscall.ESTALE:      "transient connection",
		syscall.EBUSY:       "transient still-uploading 30s",
		syscall.EMFILE:      "transient out-of-resources 5s",
		syscall.ENFILE:      "transient out-of-resources 5s",
		syscall.ENOMEM:      "transient out-of-resources 5s",
		syscall.ENOSPC:      "transient out-of-resources 5s",
	} {
		if got := verdict(t, fileError(&fs.PathError{Op: "openat", Path: secret, Err: err})); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

// A verdict on a file that changes while it is read would be a verdict on nothing.
func TestChangingFile(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	path := filepath.Join(s.dir, "a.pdf")
	write(t, path, pdf())
	f, err := s.Fetch(t.Context(), "a.pdf")
	must(t, err)
	defer f.Close()
	must(t, f.Settled(t.Context()))
	must(t, os.Chtimes(path, time.Time{}, f.changed.Add(time.Second)))
	if got := verdict(t, f.Settled(t.Context())); got != "transient still-uploading 30s" {
		t.Errorf("after a rewrite: %s", got)
	}
	must(t, os.Truncate(path, 100))
	must(t, os.Chtimes(path, time.Time{}, f.changed))
	if got := verdict(t, f.Settled(t.Context())); got != "transient still-uploading 30s" {
		t.Errorf("after a truncation: %s", got)
	}
	if got := verdict(t, f.digest(t.Context())); got != "transient short-read" {
		t.Errorf("read again after a truncation: %s", got)
	}
}
