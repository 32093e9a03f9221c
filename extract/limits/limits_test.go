//go:build linux

package limits

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// play starts the test binary in a role and returns what it printed and how it ended.
func play(t *testing.T, files []*os.File, args ...string) (string, *os.ProcessState) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &out, files
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Wait(ctx); ctx.Err() != nil {
		t.Fatalf("%q did not end: %v", args, err)
	}
	return strings.TrimSpace(out.String()), cmd.ProcessState
}

// under runs a program under limits.
func under(t *testing.T, l Limits, argv ...string) (string, *os.ProcessState) {
	t.Helper()
	return play(t, nil, append([]string{"exec"}, l.Args(argv)...)...)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	self, file := os.Args[0], filepath.Join(t.TempDir(), "x")
	for _, tt := range []struct {
		name    string
		limits  Limits
		program []string
		want    string // in the output
		exit    int
		signals string // of which one ends it
	}{
		{"memory", Limits{Data: 512 << 20}, []string{"/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=900M", "count=1"}, "memory exhausted", 1, ""},
		{"CPU time", Limits{CPU: time.Second}, []string{self, "spin"}, "", -1, "killed"}, // as Go ignores the first signal
		{"no file may be written", Limits{FileSize: -1}, []string{self, "write", file}, "file too large", 0, ""},
		{"open files", Limits{Files: 16}, []string{self, "open"}, "true open /dev/null: too many open files", 0, ""},
		{"none", Limits{}, []string{self, "open"}, "no limit", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, state := under(t, tt.limits, tt.program...)
			if !strings.Contains(out, tt.want) || state.ExitCode() != tt.exit || !strings.Contains(state.String(), tt.signals) {
				t.Errorf("got %q and %v, want %q and %d %s", out, state, tt.want, tt.exit, tt.signals)
			}
		})
	}
}

func TestCPUTimeEndsAProgramThatDoesNotHandleIt(t *testing.T) {
	t.Parallel()
	_, state := under(t, Limits{CPU: time.Second}, "/bin/sh", "-c", "while :; do :; done")
	if status := state.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGXCPU {
		t.Errorf("got %v, want SIGXCPU", state)
	}
}

func TestAllowCPU(t *testing.T) {
	t.Parallel()
	out, state := play(t, nil, "allowed")
	if status := state.Sys().(syscall.WaitStatus); out != "twice" || status.Signal() != syscall.SIGXCPU {
		t.Errorf("got %q and %v, want two pieces of work and SIGXCPU", out, state)
	}
}

func TestExecErrors(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(script, []byte{0, 1, 2}, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "no program given"},
		{[]string{"{}"}, "no program given"},
		{[]string{"5", "true"}, "read the limits"},
		{Limits{}.Args([]string{"/nonexistent"}), "find the program"},
		{Limits{}.Args([]string{script}), "exec format error"},
	} {
		out, state := play(t, nil, append([]string{"exec"}, tt.args...)...)
		if !strings.Contains(out, tt.want) || strings.Contains(out, "\n") || state.ExitCode() != ExitConfig {
			t.Errorf("%q: got %q and %v, want %q", tt.args, out, state, tt.want)
		}
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Parallel()
	if len(os.Environ()) == 0 {
		t.Fatal("there is nothing to inherit")
	}
	if out, _ := play(t, nil, "env"); out != "[]" {
		t.Errorf("environment: %s", out)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	args := append([]string{"exec"}, Limits{}.Args([]string{os.Args[0], "fds"})...)
	if out, state := play(t, []*os.File{null, null, null}, args...); out != "0 1 2 3" {
		t.Errorf("descriptors: %s (%v)", out, state)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	if p, err := Start(exec.Command("/nonexistent")); p != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, %v", p, err)
	}
}

// held is a pipe whose write end is given to processes. gone waits until none of them is left.
type held struct{ r, w *os.File }

func newHeld(t *testing.T) held {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return held{r, w}
}

func (h held) gone(t *testing.T) {
	t.Helper()
	h.w.Close()
	if err := h.r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, h.r); err != nil {
		t.Errorf("a process is left: %v", err)
	}
}

func TestKillEndsTheGroup(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		h := newHeld(t)
		cmd := exec.Command("sh", "-c", "trap '' TERM; sleep 1000 & echo; sleep 1000")
		cmd.ExtraFiles = []*os.File{h.w}
		ready, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = out
		p, err := Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
		if _, err := ready.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		ready.Close()
		ctx, cancel := context.WithCancel(t.Context())
		if wait {
			cancel()
			err = p.Wait(ctx)
		} else {
			p.Kill()
			<-p.Done()
			err = p.Wait(ctx)
		}
		cancel()
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Errorf("got %v, want a killed process", err)
		}
		h.gone(t)
		p.Kill() // harmless
	}
}

func TestTheEndOfOneIsTheEndOfItsGroup(t *testing.T) {
	t.Parallel()
	h := newHeld(t)
	out, state := play(t, []*os.File{h.w}, "forks")
	if out != "started" || !state.Success() {
		t.Errorf("got %q and %v", out, state)
	}
	h.gone(t)
}

func TestAnEscapedProcessDelaysTheEndOnly(t *testing.T) {
	t.Parallel()
	h := newHeld(t)
	cmd := exec.Command(os.Args[0], "leave")
	var out bytes.Buffer // makes a pipe
	cmd.Stdout, cmd.ExtraFiles = &out, []*os.File{h.r}
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); !errors.Is(err, exec.ErrWaitDelay) || !cmd.ProcessState.Success() {
		t.Errorf("got %v and %v", err, cmd.ProcessState)
	}
}

func TestDeathWithTheWorker(t *testing.T) {
	t.Parallel()
	for _, child := range [][]string{
		{"hang"},
		append([]string{"exec"}, Limits{}.Args([]string{os.Args[0], "hang"})...),
	} {
		h := newHeld(t)
		cmd := exec.Command(os.Args[0], append([]string{"parent"}, child...)...)
		cmd.ExtraFiles = []*os.File{h.w}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Errorf("the child was not started: %v", err)
		}
		if err := cmd.Process.Kill(); err != nil { // the parent alone
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the parent ended by itself")
		}
		h.gone(t)
	}
}
