package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	noLock := filepath.Join(dir, "no-lock")
	noData := filepath.Join(dir, "no-data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// A directory where a file must be written, and a file where a directory must be, stop
	// even a privileged user.
	if err := os.MkdirAll(lockPath(noLock), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(noData, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(noData, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name string
		cfg  Config
		is   error
		want string
	}{
		{"missing", Config{Dir: "./guyline-data"}, ErrNoStore, "no store at ./guyline-data"},
		{"empty", Config{Dir: t.TempDir()}, ErrNoStore, "no store at "},
		{"a file", Config{Dir: file}, ErrDirectory, "not a directory"},
		{"a file, create", Config{Dir: file, Create: true}, ErrDirectory, "create it: not a directory"},
		{"below a file", Config{Dir: filepath.Join(file, "data"), Create: true}, ErrDirectory, "create it: not a directory"},
		{"no lock file", Config{Dir: noLock, Create: true}, nil, "take its lock: is a directory"},
		{"no data directory", Config{Dir: noData, Create: true}, nil, "storage directory is not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), tc.cfg)
			if err == nil {
				s.Close()
				t.Fatal("Open succeeded")
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("err = %v, want %v", err, tc.is)
			}
			if msg := err.Error(); !strings.Contains(msg, tc.want) || strings.Contains(msg, "\n") {
				t.Errorf("err = %q, want one line with %q", msg, tc.want)
			}
		})
	}
}

func TestFailedOpenGivesTheLockBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "jetstream")
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Dir: dir, Create: true}); err == nil {
		t.Fatal("Open succeeded on a file for a data directory")
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	open(t, Config{Dir: dir})
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "guyline-data")
	s := open(t, Config{Dir: dir, Create: true})
	if s.Remote() || s.URL() != "" || s.server.Addr() != nil {
		t.Errorf("remote %v, URL %q, listens at %v; want a store in process that does not listen",
			s.Remote(), s.URL(), s.server.Addr())
	}
	if !s.server.JetStreamConfig().SyncAlways {
		t.Error("writes are not synced by default")
	}
	wantMode(t, dir, os.ModeDir|0o700)
	wantMode(t, lockPath(dir), 0o600)

	js := connected(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", MaxBytes: 1 << 45}); err != nil {
		t.Fatalf("create a stream larger than the disk: %v", err)
	}
	if _, err := js.Publish(t.Context(), "S", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	js.Conn().Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, Config{Dir: dir, LazySync: true})
	if s.server.JetStreamConfig().SyncAlways {
		t.Error("writes are synced one by one despite LazySync")
	}
	if _, err := connected(t, s).Stream(t.Context(), "S"); err != nil {
		t.Errorf("the stream larger than the disk is gone: %v", err)
	}
}

func TestCloseIsFinal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, Config{Dir: dir, Create: true, Listen: true})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(urlPath(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nats.url after Close: err = %v, want not there", err)
	}
	if got := readHolder(dir); got != (holder{}) {
		t.Errorf("lock file after Close names %v", got)
	}

	second := open(t, Config{Dir: dir, Listen: true})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got, ok := readURL(dir, readHolder(dir)); !ok || got != second.URL() {
		t.Error("a second Close took the next holder's address away")
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	var holding atomic.Int32
	for range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), Config{Dir: dir, Create: true})
			for errors.Is(err, ErrHeld) { // for longer than Open waits
				s, err = Open(t.Context(), Config{Dir: dir, Create: true})
			}
			if err != nil {
				t.Error(err)
				return
			}
			if n := holding.Add(1); n != 1 {
				t.Errorf("%d hold the store", n)
			}
			nc, err := s.Connect()
			if err != nil {
				t.Error(err)
			} else {
				nc.Close()
			}
			holding.Add(-1)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestDamagedStreamIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Create: true})
	js := connected(t, s)
	for _, name := range []string{"EMPTY", "LEDGER"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "LEDGER", []byte("done")); err != nil {
		t.Fatal(err)
	}
	js.Conn().Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	streams := filepath.Join(dir, "jetstream", "$G", "streams")
	sum := filepath.Join(streams, "LEDGER", "meta.sum")
	good, err := os.ReadFile(sum)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"EMPTY", "LEDGER"} {
		if err := os.WriteFile(filepath.Join(streams, name, "meta.sum"), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "stream LEDGER is damaged") {
		t.Fatalf("err = %v, want one that names LEDGER", err)
	}
	if err := os.WriteFile(sum, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := connected(t, open(t, Config{Dir: dir})).Stream(t.Context(), "LEDGER"); err != nil {
		t.Error(err)
	}
}

func TestServerLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newServerLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.Noticef("  listening on %d", 1)
	log.Warnf("rebuilding")
	log.Errorf("no space left")
	log.Debugf("not")
	log.Tracef("wanted")
	log.Fatalf("cannot start: %s", "why")
	if got, want := log.fatal(), "cannot start: why"; got != want {
		t.Errorf("fatal() = %q, want %q", got, want)
	}
	for _, want := range []string{
		`level=DEBUG msg="listening on 1"`, "level=DEBUG msg=rebuilding", `level=WARN msg="no space left"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log misses %s:\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, &out)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode() != want {
		t.Errorf("%s has mode %v, want %v", filepath.Base(path), fi.Mode(), want)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := Open(b.Context(), Config{Dir: dir, Create: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
