package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
)

// asCommand makes this test binary be the command: commands are tested as processes, with an environment and a
// working directory of their own. Their extraction processes are known by their argument, as they get no environment.
const asCommand = "BE_THE_COMMAND"

// quick is the command for what runs to its end. The tests run hundreds of those, and a process under the race detector takes four times the
// processor time to do the same. What goes on beside others, [shop.background], is this test binary, with the race detector if that has it.
var quick = os.Args[0]

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" || len(os.Args) > 1 && os.Args[1] == "extract-child" {
		main()
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if raced() {
		dir, err := os.MkdirTemp("", "guyline-test-*")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		quick = filepath.Join(dir, "guyline")
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", quick, ".").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %s", err, out))
		}
	}
	return m.Run()
}

// raced reports whether this binary has the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// shop is a working directory with the reports of testdata.
type shop struct {
	dir string
	env []string
}

func newShop(t *testing.T, env ...string) *shop {
	t.Helper()
	s := &shop{t.TempDir(), env}
	if err := os.CopyFS(filepath.Join(s.dir, "testdata"), os.DirFS("../../testdata")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GUYLINE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, asCommand+"=1"), s.env...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

type ended struct {
	code           int
	stdout, stderr string
}

// do runs a command to its end, with stdin as its standard input.
func (s *shop) do(t *testing.T, stdin string, args ...string) ended {
	t.Helper()
	cmd := s.command(t.Context(), quick, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("guyline %v: %v", args, err)
	}
	if strings.Contains(stderr.String(), "goroutine ") {
		t.Errorf("guyline %v shows a stack trace:\n%s", args, stderr.String())
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// want runs a command and checks its exit code and that its standard output has all the given parts.
func (s *shop) want(t *testing.T, code int, args []string, parts ...string) ended {
	t.Helper()
	e := s.do(t, "", args...)
	if e.code != code {
		t.Errorf("guyline %s: exit %d, want %d\n%s%s", strings.Join(args, " "), e.code, code, e.stdout, e.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(squeeze(e.stdout), part) {
			t.Errorf("guyline %s: no %q in\n%s%s", strings.Join(args, " "), part, e.stdout, e.stderr)
		}
	}
	return e
}

// process is a command that goes on while a test does something else.
type process struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser // stays open
	stdout, stderr lockedBuffer
	exited         chan struct{}
}

// background starts a command. It is killed when t ends, if it has not ended by then.
func (s *shop) background(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: s.command(context.Background(), os.Args[0], args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	return p
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// stop sends a signal and waits for the end.
func (p *process) stop(sig syscall.Signal) ended {
	p.signal(sig)
	<-p.exited
	return ended{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// worker runs `guyline run` in the background, and waits until it works.
func (s *shop) worker(t *testing.T) *process {
	t.Helper()
	p := s.background(t, "run")
	natstest.Eventually(t, "the worker to work", func() bool { return strings.Contains(p.stderr.String(), `"msg":"working"`) })
	return p
}

// write makes a file in the shop.
func (s *shop) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// connect goes to the store that a worker holds, as any NATS client can.
func (s *shop) connect(t *testing.T) *nats.Conn {
	t.Helper()
	url, err := os.ReadFile(filepath.Join(s.dir, "guyline-data/nats.url"))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(string(url), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// squeeze makes one space of every run of spaces.
func squeeze(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}
