package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/guyline/guyline/bench"
	"github.com/guyline/guyline/internal/natstest"
)

func TestBench(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	temp := t.TempDir()
	s.env = []string{"TMPDIR=" + temp}
	s.want(t, 0, []string{"bench", "--n", "100", "--reps", "1", "--workers", "8", "--designs", "raw,naive,guyline", "--profile", "profiles/new"},
		"server separate, sync interval\n", "laps 1 repetitions of 100 reports each; guyline has 8 workers\n",
		"checked guyline: 100 reports, 75 done, 25 duplicates\n", "DESIGN REPORTS/S CPU S/100K CLIENT SERVER\n",
		"RATE / raw naive\n", "CPU / raw naive\n", "\n1 rate / naive ")

	for _, name := range []string{"raw-1.pprof", "guyline-1.pprof", "guyline-1-server.pprof"} {
		if b, err := os.ReadFile(filepath.Join(s.dir, "profiles/new", name)); err != nil || len(b) == 0 {
			t.Errorf("profile %s: %d bytes, %v", name, len(b), err)
		}
	}
	e := s.want(t, 0, []string{"bench", "--n", "100", "--reps", "2", "--designs", "naive,guyline", "--server", "embedded", "--sync", "always", "--json"})
	d := json.NewDecoder(strings.NewReader(e.stdout))
	d.DisallowUnknownFields()
	var r bench.ThroughputResult
	if err := d.Decode(&r); err != nil || strings.Count(e.stdout, "\n") != 1 {
		t.Fatalf("%v in %s", err, e.stdout)
	}
	if len(r.Laps) != 4 || len(r.Goals) != 1 || r.Settings.Mode != bench.Embedded || r.Settings.Sync != bench.Always || r.Settings.Reports != 100 {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 2 { // testdata and profiles
		t.Errorf("in the working directory: %v, %v", left, err)
	}
}

// What is short of a goal does not look as if it had reached it.
func TestBenchGoals(t *testing.T) {
	t.Parallel()
	for median, want := range map[float64]string{
		0.25: "0.25 [0.10-0.90] >= 0.36 >= 0.45 missed", 0.3596: "0.3596 [0.1000-0.9000] >= 0.36 >= 0.45 missed", 0.36: "0.36 [0.10-0.90] >= 0.36 >= 0.45 accepted",
		0.447: "0.447 [0.100-0.900] >= 0.36 >= 0.45 accepted", 0.453: "0.45 [0.10-0.90] >= 0.36 >= 0.45 world-class",
	} {
		g := bench.Goal{Number: 4, What: "rate / raw", Reached: bench.Range{Median: median, Min: 0.1, Max: 0.9}, Accept: 0.36, WorldClass: 0.45}
		g.Verdict = g.Judge()
		var out bytes.Buffer
		if err := (&app{stdout: &out}).printGoals([]bench.Goal{g}); err != nil || !strings.Contains(squeeze(out.String()), "\n4 rate / raw "+want+"\n") {
			t.Errorf("%v, %v, want %s in\n%s", median, err, want, out.String())
		}
	}
}

// A bench that is stopped leaves neither a server nor its store, and on a given server no stream.
func TestBenchStopped(t *testing.T) {
	t.Parallel()
	given := natstest.Start(t)
	for _, server := range []string{"separate", "embedded", "given"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			temp := t.TempDir()
			s.env = []string{"TMPDIR=" + temp, "GUYLINE_NATS_URL=" + given.URL()}
			p := s.background(t, "bench", "--n", "1000", "--reps", "100", "--designs", "naive", "--server", server)
			natstest.Eventually(t, "the check to be over", func() bool { return strings.Contains(p.stderr.String(), `"msg":"checked"`) })
			e := p.stop(syscall.SIGINT)
			lines := strings.Split(strings.TrimSpace(e.stderr), "\n")
			if last := lines[len(lines)-1]; e.code != exitFailed || last != "guyline: stopped before everything was measured" || e.stdout != "" {
				t.Errorf("exit %d\n%s%s", e.code, e.stdout, e.stderr)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if server != "given" {
				return
			}
			names := given.JetStream(t).StreamNames(t.Context())
			for name := range names.Name() {
				t.Errorf("stream %s is left behind", name)
			}
			if err := names.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBenchWrongInput(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = []string{"GUYLINE_NATS_URL=" + natstest.Start(t).URL()}
	s.want(t, 0, []string{"setup"})
	for _, tt := range []struct {
		args string
		code int
		line string
	}{
		{"bench --n 5", exitUsage, "the number of reports is 5, allowed is 100 to 1000000"},
		{"bench --n many", exitUsage, "see `guyline bench --help`"},
		{"bench --reps 0", exitUsage, "the number of repetitions is 0, allowed is 1 to 100"},
		{"bench --workers 2000", exitUsage, "the number of workers is 2000, allowed is 1 to 1024"},
		{"bench --designs raw,fast", exitUsage, `the designs name "fast", allowed are, each once: raw,`},
		{"bench --server here", exitUsage, `the server is "here", allowed are embedded, separate and given`},
		{"bench --sync often", exitUsage, `the sync is "often", allowed are always and interval`},
		{"bench extra", exitUsage, "see `guyline bench --help`"},
		{"bench --server given", exitFailed, "stream REPORTS exists"},
		{"bench-server", exitFailed, "for the use of `guyline bench` alone"},
	} {
		e := s.want(t, tt.code, strings.Fields(tt.args))
		if !strings.HasPrefix(e.stderr, "guyline: ") || !strings.Contains(e.stderr, tt.line) || strings.Count(e.stderr, "\n") != 1 {
			t.Errorf("guyline %s says %q, want %q", tt.args, e.stderr, tt.line)
		}
	}
	s.env = nil
	if e := s.want(t, exitUsage, []string{"bench", "--server", "given"}); !strings.Contains(e.stderr, "needs an address in GUYLINE_NATS_URL") {
		t.Error(e.stderr)
	}
}
