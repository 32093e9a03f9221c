package extract

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/guyline/guyline/extract/source"
)

// children are this process's extraction processes that were given this cache directory.
func children(t testing.TB, cacheDir string) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && strings.HasSuffix(string(line), "\x00inspect\x00"+cacheDir+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// rss is this process's resident memory, in MiB.
func rss(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	var size, resident int
	_, err = fmt.Sscan(string(b), &size, &resident)
	must(t, err)
	return resident * os.Getpagesize() >> 20
}

// A batch with hostile files among the good ones, whose processes are killed at random, ends like a calm one. The
// worker's memory stays flat, and closing leaves no process.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache") // a name of its own, to find its processes by
	must(t, os.Symlink(DefaultCacheDir(), cache))
	x, err := Open(t.Context(), Config{Source: source.Config{FileRoot: "testdata/corpus"}, CacheDir: cache}, slog.New(slog.DiscardHandler))
	must(t, err)
	type job struct{ file, want string }
	var batch []job
	for range 2 {
		for _, row := range manifest(t, "testdata/corpus/manifest.tsv") {
			if row["file"] != bomb {
				batch = append(batch, job{row["file"], row["expected"]})
			}
		}
	}
	before := rss(t)

	var done, killed, again atomic.Int64
	killOne := func() {
		if pids := children(t, cache); len(pids) > 0 && syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil {
			killed.Add(1)
		}
	}
	var workers sync.WaitGroup
	jobs := make(chan job)
	for range 8 {
		workers.Go(func() {
			for j := range jobs {
				var got string
				var err error
				for range 4 { // the worker's attempts
					if got, err = verdict(t, x, j.file); got != "transient:killed-memory" {
						break
					}
					again.Add(1)
				}
				if done.Add(1)%8 == 0 {
					killOne()
				}
				if got != j.want {
					t.Errorf("%s: got %s (%v), want %s", j.file, got, err, j.want)
				}
			}
		})
	}
	for _, j := range batch {
		jobs <- j
	}
	close(jobs)
	workers.Wait()
	after := rss(t)
	t.Logf("%d files, %d processes killed, %d second attempts; the worker has %d MiB, before it had %d", len(batch), killed.Load(), again.Load(), after, before)
	if after > before+64 {
		t.Error("the worker has grown")
	}
	must(t, x.Close())
	if left := children(t, cache); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// A worker that is killed takes its processes along.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	must(t, os.Symlink(DefaultCacheDir(), cache))
	ready, out, err := os.Pipe()
	must(t, err)
	defer ready.Close()
	worker, err := os.StartProcess("/proc/self/exe", []string{"worker", "be-a-worker", cache}, &os.ProcAttr{Files: []*os.File{nil, out, os.Stderr}, Env: os.Environ()})
	must(t, err)
	must(t, out.Close())
	_, err = ready.Read(make([]byte, 1))
	must(t, err)
	if len(children(t, cache)) == 0 {
		t.Error("the worker has no process")
	}
	must(t, worker.Kill())
	_, err = worker.Wait()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(children(t, cache)) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("processes left: %v", children(t, cache))
		}
	}
}
