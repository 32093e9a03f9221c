//go:build unix

package child

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guyline/guyline/extract/pdf"
)

// This test binary is also the extraction process: the real one, or an actor that does what the files tell it.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "serve":
			if err := Serve(context.Background(), os.Args[2]); err != nil {
				os.Stderr.WriteString(err.Error())
				os.Exit(1)
			}
			os.Exit(0)
		case "act":
			act(os.Args[2])
		}
	}
	os.Exit(m.Run())
}

// act is an extraction process that behaves as each file says.
func act(opening string) {
	conn, err := confine()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	switch opening {
	case "refuse":
		_ = say(conn, answer{Error: newRefusal(os.ErrPermission)})
		return
	case "die":
		panic("born to die")
	}
	_ = say(conn, answer{})
	var late *answer // to a request before
	for {
		req, f, err := conn.receive()
		if err != nil {
			os.Exit(0)
		}
		if late != nil {
			_ = say(conn, *late)
		}
		script := make([]byte, req.Size)
		_, _ = f.ReadAt(script, 0)
		f.Close()
		a := answer{ID: req.ID, Document: &pdf.Document{Pages: os.Getpid()}}
		switch string(script) {
		case "hang":
			select {}
		case "spin":
			for n := 0; n >= 0; n ^= 1 { // a parser that never returns
			}
		case "memory":
			var all [][]byte
			for len(all) < 64 {
				all = append(all, bytes.Repeat([]byte("x"), 64<<20))
			}
			panic(len(all))
		case "crash":
			panic("the parser is confused\nand says so at length")
		case "exit":
			os.Exit(0)
		case "killed":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "stay":
			conn.Close()
			select {}
		case "garbage":
			_, _ = conn.Write([]byte("%PDF-1.7\n"))
		case "flood":
			_, _ = conn.Write([]byte(strings.Repeat("a", 2*maxAnswer)))
		case "flood stderr":
			for range 1 << 10 {
				os.Stderr.WriteString(strings.Repeat("noise\n", 1<<10))
			}
			_ = say(conn, a)
		case "twice":
			var both bytes.Buffer
			_, _ = say(&both, a), say(&both, a)
			_, _ = conn.Write(both.Bytes())
		case "late":
			_ = say(conn, a)
			late = &answer{ID: req.ID, Error: newRefusal(os.ErrPermission)}
		case "other":
			a.ID--
			_ = say(conn, a)
		case "neither":
			_ = say(conn, answer{ID: req.ID})
		case "no pages":
			_ = say(conn, answer{ID: req.ID, Document: &pdf.Document{}})
		case "environment":
			a.Document.Title = strings.Join(os.Environ(), " ")
			fds, _ := os.ReadDir("/proc/self/fd")
			for _, fd := range fds {
				name, _ := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
				a.Document.Producer += name + " "
			}
			_ = say(conn, a)
		default:
			_ = say(conn, a)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cacheDir is the one that the program and all tests share.
func cacheDir(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	must(t, err)
	return filepath.Join(dir, "guyline")
}

// pool is a pool of actors, or of real processes if first is "serve".
func pool(t testing.TB, cfg Config, command ...string) *Pool {
	t.Helper()
	cfg.Command = append([]string{os.Args[0]}, command...)
	p, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// script is an open file with this content.
func script(t testing.TB, content string) (*os.File, int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	must(t, os.WriteFile(path, []byte(content), 0o644))
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, int64(len(content))
}

// alive says whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

const soon = 30 * time.Second // long enough on a busy machine
