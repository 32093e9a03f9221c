package child

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/guyline/guyline/extract/pdf"
)

// cpu is the CPU time that a process has used so far, in all its threads. The pid 0 is this process.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	path := "/proc/self/stat"
	if pid != 0 {
		path = filepath.Join("/proc", itoa(pid), "stat")
	}
	stat, err := os.ReadFile(path)
	must(b, err)
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")"):]))
	var user, system int64
	_, err = fmt.Sscan(fields[12]+" "+fields[13], &user, &system)
	must(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// BenchmarkIsolation says what isolation costs: the same files, inspected through a warm extraction process and by the
// engine in this process, in turns. files/cpu-s is files per second per core; cpu-ratio is the price of isolation.
// With the start of a process every 500 files added it is cpu-ratio-all.
func BenchmarkIsolation(b *testing.B) {
	var files []*os.File
	var sizes []int64
	for _, name := range []string{"twr8842_q2", "twr1180_q2", "twr2231_q2", "twr3307_q2", "twr4475_q2", "twr5120_q2", "twr1944_q2"} {
		f, err := os.Open(filepath.Join("../../testdata/reports", name+".pdf"))
		must(b, err)
		defer f.Close()
		info, err := f.Stat()
		must(b, err)
		files, sizes = append(files, f), append(sizes, info.Size())
	}
	engine, err := pdf.Open(b.Context(), cacheDir(b))
	must(b, err)
	defer engine.Close()
	p := pool(b, Config{Processes: 1, Files: 1 << 30}, "serve", cacheDir(b))
	pid := p.idle[0].cmd.Process.Pid
	started := cpu(b, pid)

	var inside, outside, wallInside, wallOutside time.Duration
	n := 0
	for b.Loop() {
		at, from := time.Now(), cpu(b, 0)
		for i, f := range files {
			_, err := engine.Inspect(context.Background(), f, sizes[i], soon)
			must(b, err)
		}
		wallInside += time.Since(at)
		inside += cpu(b, 0) - from

		at, from = time.Now(), cpu(b, 0)+cpu(b, pid)
		for i, f := range files {
			_, err := p.Inspect(context.Background(), f, sizes[i])
			must(b, err)
		}
		wallOutside += time.Since(at)
		outside += cpu(b, 0) + cpu(b, pid) - from
		n += len(files)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/outside.Seconds(), "files/cpu-s")
	b.ReportMetric(float64(n)/inside.Seconds(), "files/cpu-s-in-process")
	b.ReportMetric(outside.Seconds()/inside.Seconds(), "cpu-ratio")
	b.ReportMetric((outside.Seconds()+started.Seconds()*float64(n)/500)/inside.Seconds(), "cpu-ratio-all")
	b.ReportMetric(1000*started.Seconds(), "start-cpu-ms")
	b.ReportMetric(wallOutside.Seconds()/wallInside.Seconds(), "wall-ratio")
}
