package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
)

// secret stands wherever something secret may stand. No error may contain it.
const secret = "hunter2"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, b, 0o644))
}

// open is Open for tests: loopback is allowed, and when the test ends nothing may be left behind.
func open(t testing.TB, cfg Config) *Sources {
	t.Helper()
	if cfg.TempDir == "" {
		cfg.TempDir = t.TempDir()
	}
	if cfg.FileRoot == "" {
		cfg.FileRoot = t.TempDir()
	}
	if cfg.AllowHosts == nil {
		cfg.AllowHosts = []string{"127.0.0.1", "localhost"}
	}
	s, err := Open(cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	must(t, err)
	t.Cleanup(func() {
		must(t, s.Close())
		left, err := os.ReadDir(cfg.TempDir)
		must(t, err)
		if len(left) > 0 {
			t.Errorf("left in the temporary directory: %v", left)
		}
		if len(s.hosts.known) > 0 {
			t.Errorf("hosts still known: %v", s.hosts.known)
		}
	})
	return s
}

// verdict is an error as "kind code delay". Every error must fit to be shown.
func verdict(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return "fine"
	}
	if strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), secret) {
		t.Errorf("not one line without secrets: %v", err)
	}
	e := report.Classify(err)
	if e.Delay == 0 {
		return fmt.Sprintf("%v %s", e.Kind, e.Code)
	}
	return fmt.Sprintf("%v %s %v", e.Kind, e.Code, e.Delay)
}

// fetched is verdict of a fetch. What comes must be want.
func fetched(t testing.TB, s *Sources, uri string, want []byte) (string, error) {
	t.Helper()
	f, err := s.Fetch(t.Context(), uri)
	if err != nil {
		return verdict(t, err), err
	}
	defer func() { must(t, f.Close()) }()
	sum := sha256.Sum256(want)
	got, err := io.ReadAll(f)
	must(t, err)
	if !bytes.Equal(got, want) || f.Size != int64(len(want)) || f.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%s: got %d bytes, Size %d, SHA256 %s, want %d bytes", uri, len(got), f.Size, f.SHA256, len(want))
	}
	must(t, f.Settled(t.Context()))
	return "fine", nil
}

// kindless says that an error is want itself, of no kind.
func kindless(t testing.TB, err, want error) {
	t.Helper()
	if _, judged := errors.AsType[*report.Error](err); judged || !errors.Is(err, want) {
		t.Errorf("got %v, want plainly %v", err, want)
	}
}

func hostOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Host
}

// pdf is a body of some size that is no multiple of anything.
func pdf() []byte {
	return append([]byte("%PDF-1.7\n"), bytes.Repeat([]byte("0123456789abcdef"), 20_001)...)
}

const short = 50 * time.Millisecond
