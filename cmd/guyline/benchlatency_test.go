package main

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/guyline/guyline/bench"
)

// Every part ends with a table; start-up and idle are those of real processes, which leave nothing behind.
func TestBenchLatency(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	temp := t.TempDir()
	s.env = []string{"TMPDIR=" + temp}
	args := strings.Fields("bench latency --server embedded --samples 2 --n 100 --load 50ms --outstanding 20 --delays 20ms --held 20 --reps 1 --starts 1 --idle 100ms --workers 8")
	s.want(t, 0, args, "server embedded, sync interval\n", "LOAD P50 P99 MOST REPORTS\n", "\nidle ", "OUTSTANDING DELAY P50 P99 MOST EARLY WAITED AT ONCE\n", "\n20 20 ms ",
		"HELD REPORTS/S\nnone ", "no-op handler first report done ", "guyline run, small PDF first report done ", "\n11 early deliveries ", "\n13 ms to the first report done, no-op handler ")

	e := s.want(t, 0, append(args, "--json", "--sync", "always", "--parts", "startup,idle"))
	d := json.NewDecoder(strings.NewReader(e.stdout))
	d.DisallowUnknownFields()
	var r bench.LatencyResult
	if err := d.Decode(&r); err != nil || strings.Count(e.stdout, "\n") != 1 {
		t.Fatalf("%v in %s", err, e.stdout)
	}
	if r.Single != nil || r.Retries != nil || r.Held != nil || r.Settings.Sync != bench.Always || len(r.Startup) != 2 {
		t.Fatalf("%+v", r)
	}
	var last float64
	for _, step := range r.Startup[0].Steps {
		if step.At.Median <= last {
			t.Errorf("steps out of order: %+v", r.Startup[0])
		}
		last = step.At.Median
	}
	if len(r.Startup[0].Steps) != 3 || r.Startup[0].Done.Median <= last || r.Startup[1].Done.Median <= 0 {
		t.Errorf("%+v", r.Startup)
	}
	if known := runtime.GOOS == "linux"; (r.Idle != nil) != known || known && (r.Idle.RSS <= 0 || r.Idle.InspectionRSS <= 0) {
		t.Errorf("idle: %+v", r.Idle)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBenchLatencyWrongInput(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for args, line := range map[string]string{
		"bench latency --parts idle":                  `the parts name "idle"`,
		"bench latency --parts all --server embedded": `the parts name "all"`,
		"bench latency --server given":                "--server given needs an address in GUYLINE_NATS_URL",
		"bench latency --sync often":                  `the sync is "often"`,
		"bench latency --held 0":                      "the number of held reports is 0",
		"bench latency --delays soon":                 "see `guyline bench latency --help`",
		"bench latency now":                           "see `guyline bench latency --help`",
	} {
		if e := s.want(t, exitUsage, strings.Fields(args)); !strings.Contains(e.stderr, line) {
			t.Errorf("guyline %s says %q, want %q", args, e.stderr, line)
		}
	}
}

// The worker that does nothing with reports records nothing of an operator's, whoever starts it.
func TestBenchWorkerAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, 0, []string{"publish", "--site", "TWR-1", "--uri", "a.pdf"})
	if e := s.want(t, exitFailed, []string{bench.WorkerCommand}); !strings.Contains(e.stderr, "for the use of `guyline bench latency` alone") {
		t.Error(e.stderr)
	}
	s.want(t, 0, []string{"show", "TWR-1", "a.pdf"}, "fate waiting\n")
}
