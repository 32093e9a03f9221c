package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestMain lets the test binary stand in for another Guyline process; see holdElsewhere.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EMBEDDED_TEST_HOLD"); dir != "" {
		if err := beHolder(dir, os.Getenv("EMBEDDED_TEST_LISTEN") != ""); err != nil {
			fmt.Fprintln(os.Stdout, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv("EMBEDDED_TEST_PUBLISH"); dir != "" {
		fmt.Fprintln(os.Stdout, bePublisher(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// acked is how many messages a process of holdElsewhere has stored once it is ready.
const acked = 20

// beHolder opens the store, stores the messages, says so, and holds the store until stdin ends.
func beHolder(dir string, listen bool) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{Dir: dir, Create: true, Listen: listen})
	if err != nil {
		return err
	}
	nc, err := s.Connect()
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S"}); err != nil {
		return err
	}
	for range acked {
		if _, err := js.Publish(ctx, "S", []byte("kept")); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	nc.Close()
	return s.Close()
}

// process is another process that holds a store.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// holdElsewhere starts a process that holds the store in dir, and returns when it does.
func holdElsewhere(t *testing.T, dir string, listen bool) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "EMBEDDED_TEST_HOLD="+dir)
	if listen {
		cmd.Env = append(cmd.Env, "EMBEDDED_TEST_LISTEN=1")
	}
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, stdin: stdin}
	t.Cleanup(p.kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the other process said %q, %v; want ready", line, err)
	}
	return p
}

func (p *process) pid() string { return fmt.Sprintf("(pid %d)", p.cmd.Process.Pid) }

// kill ends the process at once. It gets no chance to tidy up.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// finish lets the process close the store and end.
func (p *process) finish() { p.stdin.Close() }

// open opens the store and closes it when the test ends.
func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connected returns a JetStream context on the store; its connection closes when the test ends.
func connected(t *testing.T, s *Store) jetstream.JetStream {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// wantKept checks that every message the other process had acknowledged is there.
func wantKept(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got != acked {
		t.Errorf("%d messages in the store, want %d", got, acked)
	}
}

// wantHeld checks the error of an Open that found the store held.
func wantHeld(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, ErrHeld) {
		t.Fatalf("err = %v, want ErrHeld", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

// brief is the context of an Open that is to wait in vain.
func brief(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
