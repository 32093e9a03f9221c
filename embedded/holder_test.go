package embedded

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
)

func TestHeldByAListener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := holdElsewhere(t, dir, true)

	s := open(t, Config{Dir: dir})
	if !s.Remote() {
		t.Fatal("the store was opened in process while another process holds it")
	}
	wantKept(t, connected(t, s))
	wantMode(t, urlPath(dir), 0o600)
	if line, err := os.ReadFile(urlPath(dir)); err != nil || string(line) != s.URL() {
		t.Errorf("nats.url = %q, %v; want %q", line, err, s.URL())
	}

	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(u.Host, "127.0.0.1:") {
		t.Errorf("the holder listens on %s, want loopback", u.Host)
	}
	for name, user := range map[string]*url.Userinfo{
		"no token":           nil,
		"the start id alone": url.User(s.start),
		"a wrong token":      url.User(u.User.Username() + "0"),
	} {
		u.User = user
		nc, err := nats.Connect(u.String())
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("connect with %s: err = %v, want %v", name, err, nats.ErrAuthorization)
			nc.Close()
		}
	}

	_, err = Open(t.Context(), Config{Dir: dir, Listen: true})
	wantHeld(t, err, other.pid(), "runs and listens")
}

func TestHeldByAnotherThatDoesNotListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := holdElsewhere(t, dir, false)

	for _, listen := range []bool{false, true} {
		_, err := Open(brief(t), Config{Dir: dir, Listen: listen})
		wantHeld(t, err, other.pid())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want also %v", err, context.DeadlineExceeded)
		}
	}
}

func TestWaitsForAShortCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := holdElsewhere(t, dir, false)

	opened := make(chan *Store, 1)
	go func() {
		s, err := Open(context.WithoutCancel(t.Context()), Config{Dir: dir, Listen: true})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	other.finish()
	if s := <-opened; s != nil {
		js := connected(t, s)
		wantKept(t, js)
		js.Conn().Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestKilledHolder(t *testing.T) {
	t.Parallel()
	for _, listen := range []bool{false, true} {
		dir := t.TempDir()
		other := holdElsewhere(t, dir, listen)
		other.kill()
		if _, err := os.Stat(urlPath(dir)); (err == nil) != listen {
			t.Fatalf("the killed process left nats.url: %v, want %v", err == nil, listen)
		}

		s := open(t, Config{Dir: dir})
		if s.Remote() {
			t.Fatal("the store of a dead process was not opened in process")
		}
		wantKept(t, connected(t, s))
		if _, err := os.Stat(urlPath(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the address of a dead process is still there: %v", err)
		}
	}
}

// A plain server takes any token. Only the files can tell that it is not the holder.
func TestStrangersAtAStaleAddress(t *testing.T) {
	t.Parallel()
	const dead, alive = "00000000000000aa", "00000000000000bb"
	stranger := "nats://" + dead + "secret@" + strings.TrimPrefix(natstest.Start(t).URL(), "nats://")

	for name, tc := range map[string]struct {
		lockFile string
		want     string
	}{
		"another start id":         {`{"pid":4711,"start":"` + alive + `"}`, "(pid 4711)"},
		"lock file not yet ours":   {`{"pid":4711,"start":"` + dead + `"}`, `another server, "natstest"`},
		"lock file empty":          {``, "(pid unknown)"},
		"lock file half written":   {`{"pid":4711,"sta`, "(pid unknown)"},
		"lock file without an id":  {`{"pid":4711}`, "(pid 4711)"},
		"lock file with a part id": {`{"pid":4711,"start":"0000"}`, "(pid 4711)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			lock := flock.New(lockPath(dir))
			if err := lock.Lock(); err != nil {
				t.Fatal(err)
			}
			defer lock.Unlock()
			writeFile(t, lockPath(dir), tc.lockFile)
			writeFile(t, urlPath(dir), stranger)
			_, err := Open(brief(t), Config{Dir: dir})
			wantHeld(t, err, tc.want)
		})
	}

	t.Run("nobody holds the lock", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		writeFile(t, lockPath(dir), `{"pid":4711,"start":"`+dead+`"}`)
		writeFile(t, urlPath(dir), stranger)
		if s := open(t, Config{Dir: dir}); s.Remote() {
			t.Error("the stale address was used")
		}
	})
}

func TestNextFreePort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", hostPort(firstPort))
	if err == nil { // else another test's process has it, and may let it go at any time
		defer l.Close()
	}
	a := open(t, Config{Dir: t.TempDir(), Create: true, Listen: true})
	b := open(t, Config{Dir: t.TempDir(), Create: true, Listen: true})
	if a.URL() == b.URL() || err == nil && (strings.HasSuffix(a.URL(), ":4222") || strings.HasSuffix(b.URL(), ":4222")) {
		t.Errorf("two stores listen at ports %v and %v, want two other than 4222", a.server.Addr(), b.server.Addr())
	}
	wantMode(t, urlPath(a.dir), 0o600)
	connected(t, a) // in process, with the token
}

func TestWriteURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, urlPath(dir)+".tmp", "left by a crash, and longer than the address")
	h := holder{PID: 1, Start: "00000000000000aa"}
	address := "nats://00000000000000aabb@127.0.0.1:4222"
	if err := writeURL(dir, address); err != nil {
		t.Fatal(err)
	}
	if got, ok := readURL(dir, h); !ok || got != address {
		t.Errorf("readURL = %q, %v; want %q", got, ok, address)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v in the directory, want nats.url alone", entries, err)
	}

	if err := writeURL(filepath.Join(dir, "gone"), address); err == nil || !strings.Contains(err.Error(), "write nats.url: ") {
		t.Errorf("writeURL into no directory: err = %v", err)
	}

	// What cannot be removed, as on a file system that is read-only, is told both cures.
	if err := os.MkdirAll(filepath.Join(dir, "stuck", "nats.url", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := removeURL(filepath.Join(dir, "stuck")); err == nil || !strings.HasSuffix(err.Error(), "; make the directory writable, or remove the file by hand") {
		t.Errorf("removeURL of what cannot be removed: err = %v", err)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
