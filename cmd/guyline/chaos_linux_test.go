package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/guyline/guyline/internal/natstest"
)

// parts counts the processes of a run of `guyline chaos`, which all have its temporary directory in their environment.
func parts(t *testing.T, temp string) (n int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline") // it may have ended
		env, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(line, []byte("\x00chaos-")) && bytes.Contains(env, []byte("TMPDIR="+temp)) {
			n++
		}
	}
	return n
}

// Whatever ends the harness, it leaves neither processes nor files: not even when it is killed in the middle.
func TestChaosLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			temp := t.TempDir()
			s.env = []string{"TMPDIR=" + temp}
			p := s.background(t, "chaos", "--seed", "1", "--reports", "200", "--faults", "0", "--for", "1h")
			natstest.Eventually(t, "the run to begin", func() bool { return strings.Contains(p.stderr.String(), `"msg":"started"`) })
			if n := parts(t, temp); n < 2 { // the server, and who cleans up; the workers may not be there yet
				t.Errorf("%d processes", n)
			}
			e := p.stop(sig)
			if sig == syscall.SIGTERM && (e.code != exitFailed || !strings.HasSuffix(e.stderr, "guyline: chaos: interrupted\n")) {
				t.Errorf("exit %d\n%s", e.code, e.stderr)
			}
			natstest.Eventually(t, "every process to be gone", func() bool { return parts(t, temp) == 0 })
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
