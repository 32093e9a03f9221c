package integration_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/extract"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// corpus is the sample of real and hostile files, by what is expected of each: "accept:<pages>" or "<kind>:<code>".
func corpus(t testing.TB) map[string]string {
	t.Helper()
	table, err := os.ReadFile("../extract/testdata/corpus/manifest.tsv")
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Split(line, "\t"); fields[0] != "file" {
			expected[fields[0]] = fields[3]
		}
	}
	return expected
}

// killOne kills one extraction process of this process, if there is one, as the kernel does when memory runs out.
func killOne() bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	rand.Shuffle(len(dirs), func(i, j int) { dirs[i], dirs[j] = dirs[j], dirs[i] })
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline")
		stat, _ := os.ReadFile(dir + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(line), "\x00extract-child\x00") {
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	return false
}

// A night of five hundred good reports with forty hostile ones among them: every good one is done, every hostile one is
// dead with its code, in one run, although the processes that read them are killed at random.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	const good, hostile, kills = 500, 40, 20
	x, err := extract.Open(t.Context(), extract.Config{
		Source: source.Config{FileRoot: "../extract/testdata/corpus"}, CacheDir: extract.DefaultCacheDir(),
	}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	// A site of its own makes each a report of its own, though many are about one file.
	w := newWorld(t, func(ctx context.Context, e report.Event, _ int) (report.Result, error) { return x.Extract(ctx, e) },
		func(cfg *consumer.Config) {
			cfg.Workers = 8
			cfg.AttemptTimeout = 2 * time.Minute
		})

	var fine, bad []string
	expected := corpus(t)
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if strings.HasPrefix(expected[name], "accept:") {
			fine = append(fine, name)
		} else if name != "bomb-objstm-1gib.pdf" {
			bad = append(bad, name)
		}
	}
	want := map[report.Key]string{} // "done", or the code
	order := rand.Perm(good + hostile)
	for _, i := range order {
		site := fmt.Sprint("TWR-", i)
		switch {
		case i < good:
			want[w.publish(site, fine[i%len(fine)])] = "done"
		case i == good: // once: it takes seconds
			want[w.publish(site, "bomb-objstm-1gib.pdf")] = "killed-memory"
		default:
			name := bad[i%len(bad)]
			_, code, _ := strings.Cut(expected[name], ":")
			want[w.publish(site, name)] = code
		}
	}
	killing, calm := context.WithCancel(t.Context())
	killed := make(chan int)
	go func() {
		n := 0
		defer func() { killed <- n }()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n < kills {
			select {
			case <-killing.Done():
				return
			case <-tick.C:
				if killOne() {
					n++
				}
			}
		}
	}()
	w.work()
	for left := good + hostile; left > 0; { // under the race detector, on a busy machine, this can take minutes
		left = max(0, left-50)
		natstest.Eventually(t, fmt.Sprint("all but ", left, " to be settled"), seldom(func() bool {
			n := w.stored()
			return n >= 0 && n <= left
		}))
	}
	calm()
	t.Logf("%d extraction processes were killed", <-killed)

	got := map[report.Key]string{}
	for e, err := range w.ledger.All(t.Context(), "*") {
		w.must(err)
		got[e.Key()] = "done"
	}
	for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
		w.must(err)
		got[l.Key] = string(l.Code)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
	w.ends(invariant.Tally{Done: good, Dead: hostile})
}
