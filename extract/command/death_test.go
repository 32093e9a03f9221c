//go:build linux

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
)

func TestDeaths(t *testing.T) {
	t.Parallel()
	hog := filepath.Join(t.TempDir(), "hog.py")
	if err := os.WriteFile(hog, []byte("b = bytearray(2 << 30)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	brief := Config{Time: time.Second}
	p := newPulse(t)
	for _, tt := range []struct {
		name string
		c    *Command
		code report.Code
		want string
	}{
		{"killed when it lacks memory", program(t, Config{}, script(t, "echo bash: fork: Cannot allocate memory >&2; kill -KILL $$")), report.CodeKilledMemory, "signal 9 (killed) after "},
		{"crash", program(t, Config{}, script(t, "kill -SEGV $$")), report.CodeCrashed, "signal 11 (segmentation fault) after "},
		{"memory in Python", program(t, Config{Memory: 512 << 20}, "python3", hog), report.CodeKilledMemory, "MemoryError; it may use 512 MiB"},
		{"memory in C", program(t, Config{Memory: 512 << 20}, "dd if=/dev/zero of=/dev/null bs=900M count=1"), report.CodeKilledMemory, "memory exhausted"},
		{"spins", role(t, brief, "spin"), report.CodeKilledTime, "after 1s"},
		{"hangs", role(t, brief, "hold", p.fifo), report.CodeKilledTime, "after 1s"},
		{"hangs and ignores signals", role(t, brief, "stubborn", p.fifo), report.CodeKilledTime, "after 1s"},
		{"forks", role(t, brief, "forks", p.fifo), report.CodeKilledTime, "after 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.c.Inspect(t.Context(), event, unnamed(t, ""))
			if got != nil {
				t.Errorf("a result: %s", got)
			}
			wants(t, err, report.KindPoison, tt.code, tt.want)
		})
	}
	t.Cleanup(func() { p.ends(t) }) // after the subtests
}

// Whoever kills an extractor from outside says nothing about the file.
func TestKilledFromOutside(t *testing.T) {
	t.Parallel()
	got, err := program(t, Config{}, script(t, "kill -KILL $$")).Inspect(t.Context(), event, unnamed(t, ""))
	if got != nil {
		t.Errorf("a result: %s", got)
	}
	wants(t, err, report.KindTransient, report.CodeKilledMemory, "killed from outside")
}

func TestOneDeathIsForgiven(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "died")
	got, err := role(t, Config{}, "dieOnce", marker).Inspect(t.Context(), event, unnamed(t, ""))
	if err != nil || string(got) != "{}" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestGrandchildHoldsTheOutput(t *testing.T) {
	t.Parallel()
	p := newPulse(t)
	got, err := role(t, Config{}, "grandchild", p.fifo).Inspect(t.Context(), event, unnamed(t, ""))
	if err != nil || string(got) != "{}" {
		t.Errorf("got %s, %v", got, err)
	}
	p.ends(t)
}

// A worker that is killed leaves neither its extractor nor, after the next start, its temporary directory.
func TestDeathWithTheWorker(t *testing.T) {
	t.Parallel()
	p, temp := newPulse(t), t.TempDir()
	w := exec.Command(os.Args[0], "worker", p.fifo, temp)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	p.begins(t)
	cfg := Config{Line: "true", Exec: []string{os.Args[0], "exec"}, TempDir: temp}
	if _, err := New(cfg); err != nil {
		t.Error(err)
	}
	if inUse, err := os.ReadDir(temp); err != nil || len(inUse) != 1 {
		t.Errorf("in use while it works: %v, %v", inUse, err)
	}
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err == nil {
		t.Error("the worker ended by itself")
	}
	p.ends(t)
	if _, err := New(cfg); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
