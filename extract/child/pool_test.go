//go:build unix

package child

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Whatever a file makes its process do, it costs that file alone, and the next one is inspected.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		script, want, reason string
	}{
		{"hang", "poison killed-time", "did not answer in time"},
		{"spin", "poison killed-time", "did not answer in time"},
		{"memory", "poison killed-memory", "more than 1024 MiB"},
		{"crash", "poison crashed", "exit status 2): panic: the parser is confused; repair"},
		{"exit", "poison crashed", "exit status 0"},
		{"killed", "transient killed-memory", "killed from outside"},
		{"stay", "poison crashed", "none, but it went on"},
		{"garbage", "poison crashed", "invalid character"},
		{"flood", "poison crashed", "more than 65536 bytes"},
		{"twice", "poison crashed", "what was not asked"},
		{"late", "", ""},
		{"other", "poison crashed", "what was not asked"},
		{"neither", "poison crashed", "neither yes nor no"},
		{"no pages", "poison crashed", "neither yes nor no"},
		{"flood stderr", "", ""},
		{"environment", "", ""},
	} {
		t.Run(tt.script, func(t *testing.T) {
			t.Parallel()
			p := pool(t, Config{Processes: 1, Limit: soon}, "act", "well")
			if tt.script == "hang" || tt.script == "spin" {
				p.cfg.Limit = 100 * time.Millisecond
			}
			f, size := script(t, tt.script)
			doc, err := p.Inspect(t.Context(), f, size)
			got := ""
			if err != nil {
				e := report.Classify(err)
				got = e.Kind.String() + " " + string(e.Code)
			}
			if got != tt.want || err != nil && (!strings.Contains(err.Error(), tt.reason) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got %q (%v), want %q (%s)", got, err, tt.want, tt.reason)
			}
			if tt.script == "environment" {
				if want := "GOMAXPROCS=2 GOMEMLIMIT=512MiB"; doc.Title != want {
					t.Errorf("its environment is %q, want %q", doc.Title, want)
				}
				t.Log("its descriptors:", doc.Producer)
				for name := range strings.FieldsSeq(doc.Producer) {
					if strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/proc/") && !strings.HasPrefix(name, "/sys/fs/cgroup/") && name != "/dev/null" {
						t.Errorf("it has %s open", name)
					}
				}
			}
			f, size = script(t, "fine")
			if doc, err := p.Inspect(t.Context(), f, size); err != nil || doc.Pages < 1 {
				t.Errorf("the next file: %v", err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for opening, want := range map[string]string{"refuse": "permission denied", "die": "born to die"} {
		_, err := Open(t.Context(), Config{Command: []string{os.Args[0], "act", opening}}, slog.Default())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", opening, err, want)
		}
	}
	if _, err := Open(t.Context(), Config{Command: []string{"/nowhere"}}, slog.Default()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{Command: []string{os.Args[0], "act", "well"}}, slog.Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// A stopped caller gets his context's error at once, waiting or inspecting, and the process goes with him.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	p := pool(t, Config{Processes: 1}, "act", "well")
	f, size := script(t, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := p.Inspect(ctx, f, size); err != context.DeadlineExceeded {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if len(p.idle) > 0 {
		t.Error("a process that was given up is still there")
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	p := pool(t, Config{Processes: 3}, "act", "well")
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		pids = map[int]bool{}
	)
	for range 32 {
		f, size := script(t, "fine")
		wg.Go(func() {
			doc, err := p.Inspect(t.Context(), f, size)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			pids[doc.Pages] = true
		})
	}
	wg.Wait()
	if len(pids) > 3 {
		t.Errorf("%d processes, want at most 3", len(pids))
	}
}

func TestRecycling(t *testing.T) {
	t.Parallel()
	p := pool(t, Config{Processes: 1, Files: 2}, "act", "well")
	var got []int
	seen := map[int]int{}
	for range 6 {
		f, size := script(t, "fine")
		doc, err := p.Inspect(t.Context(), f, size)
		must(t, err)
		if _, ok := seen[doc.Pages]; !ok {
			seen[doc.Pages] = len(seen) + 1
		}
		got = append(got, seen[doc.Pages])
	}
	if diff := cmp.Diff([]int{1, 1, 2, 2, 3, 3}, got); diff != "" {
		t.Errorf("which process had which file (-want +got)\n%s", diff)
	}
	for pid, nth := range seen {
		if nth < 3 && alive(pid) {
			t.Errorf("process %d is still there", nth)
		}
	}
}

// An idle process that was killed is nobody's fault.
func TestKilledWhileIdle(t *testing.T) {
	t.Parallel()
	p := pool(t, Config{Processes: 1}, "act", "well")
	for range 3 {
		f, size := script(t, "fine")
		doc, err := p.Inspect(t.Context(), f, size)
		must(t, err)
		must(t, syscall.Kill(doc.Pages, syscall.SIGKILL))
	}
}

// Closing the pool ends all processes, also one that does not listen.
func TestClose(t *testing.T) {
	t.Parallel()
	p, err := Open(t.Context(), Config{Command: []string{os.Args[0], "act", "well"}, Processes: 2}, slog.Default())
	must(t, err)
	one, err := p.fresh(t.Context())
	must(t, err)
	pids := []int{p.idle[0].cmd.Process.Pid, one.cmd.Process.Pid}
	must(t, syscall.Kill(pids[1], syscall.SIGSTOP))
	p.put(one)
	must(t, p.Close())
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}
