package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/part"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// WorkerCommand is the hidden command as which the program starts itself to be a worker: all that `guyline run` does, with a handler that does
// nothing in place of the inspection of files. It prints a [Step] when it gets to each.
const WorkerCommand = "bench-worker"

// Step is a line that a worker process prints. At is the wall clock, which both processes share.
type Step struct {
	Step string    `json:"step"`
	At   time.Time `json:"at"`
}

// The steps of a start.
const (
	StepMain  = "main"  // the command begins: the program is loaded and its packages are ready
	StepStore = "store" // the server runs, and streams, consumers and buckets are looked at
	StepReady = "ready" // the worker is open
	StepDone  = "done"  // a report is done and acknowledged
)

// smallStore is how many reports are done in the store that start-up is measured on.
const smallStore = 100

// yard is a directory with a store and, for `guyline run`, files.
type yard struct {
	cfg LatencyConfig
	dir string
}

func (c LatencyConfig) openYard(ctx context.Context, reports int) (_ *yard, err error) {
	dir, err := os.MkdirTemp("", "guyline-bench-")
	if err != nil {
		return nil, err
	}
	y := &yard{c, dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.close())
		}
	}()
	return y, y.visit(ctx, func(js jetstream.JetStream) error {
		if err := consumer.Setup(ctx, js, consumer.DefaultConfig().Queues); err != nil {
			return err
		}
		b := &bed{cfg: c.consumerConfig(0), worker: js, publisher: js, dir: dir}
		var j journeys
		all := j.expect(reports)
		if err := b.publish(ctx, reports, j.begin); err != nil || reports == 0 {
			return err
		}
		b.cfg.Queues = consumer.DefaultConfig().Queues
		working, stop, err := b.work(ctx, noop, j.observe)
		if err != nil {
			return err
		}
		_, _, wrong := j.times()
		return errors.Join(await(working, all, "the reports of the small store"), stop(), wrong)
	})
}

func (y *yard) close() error { return os.RemoveAll(y.dir) }

// visit opens the store for a moment.
func (y *yard) visit(ctx context.Context, do func(jetstream.JetStream) error) (err error) {
	p, err := openPlace(ctx, Config{Mode: Embedded, Sync: y.cfg.Place.Sync, Dir: filepath.Join(y.dir, "data")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	nc, err := p.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return do(js)
}

// submit publishes one report about a file.
func (y *yard) submit(ctx context.Context, file string) error {
	return y.visit(ctx, func(js jetstream.JetStream) error {
		e := report.Event{SiteID: "BENCH-START", SourceURI: file}
		duplicate, err := stream.Publish(ctx, js, e, fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI))
		if err == nil && duplicate {
			err = fmt.Errorf("report %s is a duplicate", file)
		}
		return err
	})
}

// run starts this program, hands next each line that it prints, and interrupts it when next says so. It returns when the process was started.
// Of `guyline run` the lines are those of its log.
func (y *yard) run(ctx context.Context, next func(pid int, started time.Time, line []byte) (over bool), args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir, cmd.SysProcAttr = y.dir, part.Attributes(true)
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GUYLINE_") }),
		"GUYLINE_DATA_DIR="+filepath.Join(y.dir, "data"), "GUYLINE_SYNC="+string(y.cfg.Place.Sync), "GUYLINE_FILE_ROOT="+y.dir,
		"GUYLINE_LOG_FORMAT=json", "GUYLINE_CACHE_DIR="+y.cfg.CacheDir)
	lines, err := cmd.StdoutPipe()
	if args[0] != WorkerCommand {
		lines, err = cmd.StderrPipe()
	}
	if err != nil {
		return err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	over, last := false, ""
	for s := bufio.NewScanner(lines); !over && s.Scan(); {
		last = s.Text()
		over = next(cmd.Process.Pid, started, s.Bytes())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // elsewhere than on Unix, or it has ended
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, lines)
	err = cmd.Wait()
	switch {
	case over:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("`guyline %s` has ended too early (%w): %s", args[0], err, last)
}

// measureStartup starts worker processes on a small store with one report in it, and times each until that report is done: with a handler that does
// nothing, and as `guyline run`, which inspects a small PDF. One start of each kind before is not measured: it makes the streams that are
// missing, and compiles the PDF engine if its cache is cold.
func measureStartup(ctx context.Context, cfg LatencyConfig, r *LatencyResult) (err error) {
	y, err := cfg.openYard(ctx, smallStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	for _, kind := range []struct {
		what, command string
		step          func(line []byte) (Step, bool)
	}{{"no-op handler", WorkerCommand, stepOf}, {"guyline run, small PDF", "run", stepOfLog}} {
		of := map[string][]float64{}
		for i := range cfg.Starts + 1 {
			file := fmt.Sprintf("%s-%d.pdf", kind.command, i)
			if err := os.WriteFile(filepath.Join(y.dir, file), smallPDF(), 0o600); err != nil {
				return err
			}
			if err := y.submit(ctx, file); err != nil {
				return err
			}
			err := y.run(ctx, func(_ int, started time.Time, line []byte) bool {
				s, ok := kind.step(line)
				if ok && i > 0 {
					of[s.Step] = append(of[s.Step], s.At.Sub(started).Seconds()*1000)
				}
				return ok && s.Step == StepDone
			}, kind.command)
			if err != nil {
				return err
			}
		}
		row := StartResult{What: kind.what, Done: spread(of[StepDone])}
		for _, step := range []string{StepMain, StepStore, StepReady} {
			if len(of[step]) > 0 {
				row.Steps = append(row.Steps, StartStep{step, spread(of[step])})
			}
		}
		r.Startup = append(r.Startup, row)
	}
	return nil
}

func stepOf(line []byte) (s Step, ok bool) {
	return s, json.Unmarshal(line, &s) == nil && s.Step != ""
}

// stepOfLog reads the log of `guyline run`.
func stepOfLog(line []byte) (Step, bool) {
	var l struct {
		Time time.Time
		Msg  string
	}
	if json.Unmarshal(line, &l) != nil {
		return Step{}, false
	}
	step, ok := map[string]string{"working": StepReady, "report_succeeded": StepDone}[l.Msg]
	return Step{step, l.Time}, ok
}

// smallPDF is a file of one page with one line of text.
func smallPDF() []byte {
	text := "BT /F1 24 Tf 72 700 Td (Guyline) Tj ET"
	var b []byte
	var at []int
	for i, object := range []string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(text), text), "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
	} {
		if i == 0 {
			b = append(b, "%PDF-1.4\n"...)
		}
		at = append(at, len(b))
		b = fmt.Appendf(b, "%d 0 obj%s\nendobj\n", i+1, object)
	}
	table := len(b)
	b = fmt.Appendf(b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		b = fmt.Appendf(b, "%010d 00000 n \n", offset)
	}
	return fmt.Appendf(b, "trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, table)
}

// calm is how long a worker may settle before it counts as idle.
const calm = 5 * time.Second

// measureIdle starts `guyline run` on an empty store and reads what the process costs while nothing happens. The process that waits
// for files to inspect counts by itself.
func measureIdle(ctx context.Context, cfg LatencyConfig, r *LatencyResult) (err error) {
	y, err := cfg.openYard(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	var row IdleResult
	var unread error
	err = y.run(ctx, func(pid int, _ time.Time, line []byte) bool {
		if s, ok := stepOfLog(line); !ok || s.Step != StepReady {
			return false
		}
		row, unread = cfg.watchIdle(ctx, pid)
		return true
	}, "run")
	if err = errors.Join(err, unread); err != nil && !errors.Is(err, errUnknown) {
		return err
	}
	if err == nil {
		r.Idle = &row
	}
	return nil
}

func (c LatencyConfig) watchIdle(ctx context.Context, pid int) (row IdleResult, err error) {
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(min(calm, c.Idle)); err != nil {
		return row, err
	}
	others := children(pid)
	read := func() (own, other time.Duration, err error) {
		if own, err = processCPU(pid); err != nil {
			return own, other, err
		}
		for _, p := range others {
			cpu, err := processCPU(p)
			if err != nil {
				return own, other, err
			}
			other += cpu
		}
		return own, other, nil
	}
	own, other, err := read()
	if err != nil {
		return row, err
	}
	began := time.Now()
	if err := wait(c.Idle); err != nil {
		return row, err
	}
	ownAfter, otherAfter, err := read()
	if err != nil {
		return row, err
	}
	row.Seconds = time.Since(began).Seconds()
	row.CPU = 100 * (ownAfter - own).Seconds() / row.Seconds
	row.InspectionCPU = 100 * (otherAfter - other).Seconds() / row.Seconds
	if row.RSS, err = residentNow(pid); err != nil {
		return row, err
	}
	for _, p := range others {
		rss, err := residentNow(p)
		if err != nil {
			return row, err
		}
		row.InspectionRSS += rss
	}
	return row, nil
}

// children are the processes that a process has started, where /proc tells.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for word := range strings.FieldsSeq(string(b)) {
			var p int
			if _, err := fmt.Sscan(word, &p); err == nil {
				pids = append(pids, p)
			}
		}
	}
	return pids
}
