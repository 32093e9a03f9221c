package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/report"
)

// workerSettings is what a worker process is told.
type workerSettings struct {
	Config Config
	Name   string
	Runs   string   // directory in which runs are counted
	URLs   []string // of the proxies
}

// Work is a worker process: a consumer whose handler does with each report what its event says. It prints the kind of
// each outcome on a line of its own, and ends when ctx does, or the standard input.
func Work(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger, options ...nats.Option) error {
	var s workerSettings
	ctx, err := settle(ctx, in, &s, nil)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(strings.Join(s.URLs, ","), append(slices.Clip(options), nats.IgnoreDiscoveredServers())...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	cfg := s.Config.consumer()
	cfg.Worker = fmt.Sprintf("%s/%d", s.Name, os.Getpid())
	var mu sync.Mutex
	cfg.Observe = func(o consumer.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, o.Kind)
	}
	c, err := consumer.Open(ctx, js, (&script{s.Runs, cfg.Worker}).handle, cfg, log)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// failing is the code of a run that fails: one that blames the report, not its upstream.
const failing = report.CodeShortRead

// What the reasons of the dead have to say.
const neverSucceeds = "of a report that never succeeds"

func unparseable(uri string) string { return "unparseable structure in " + uri }
func succeedsAt(run int) string     { return fmt.Sprint("of a report that succeeds at run ", run) }

// script is the handler of every worker.
type script struct{ runs, worker string }

// result is what a report that is done says.
type result struct {
	Answer string `json:"answer"`
	Worker string `json:"worker"`
	Run    int    `json:"run"`
}

func (s *script) handle(ctx context.Context, e report.Event) (report.Result, error) {
	key := e.Key()
	run, err := countRun(s.runs, key)
	if err != nil {
		return nil, report.Transient(report.CodeOutOfResources, fmt.Errorf("count the run: %w", err))
	}
	fate, _ := e.Metadata["fate"].(string)
	switch Fate(fate) {
	case Killer:
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err == nil {
			select {} // until it has happened
		}
		return nil, err
	case Poison:
		return nil, report.Poison(report.CodeMalformedPDF, errors.New(unparseable(e.SourceURI)))
	case Never:
		return nil, report.Transient(failing, fmt.Errorf("run %d %s", run, neverSucceeds))
	}
	select {
	case <-time.After(time.Duration(number(e.Metadata["pause_ms"])) * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if at := number(e.Metadata["at"]); run < at {
		return nil, report.Transient(failing, fmt.Errorf("run %d %s", run, succeedsAt(at)))
	}
	return report.NewResult(result{answer(key), s.worker, run})
}

func number(v any) int {
	n, _ := v.(json.Number)
	i, _ := strconv.Atoi(string(n))
	return i
}

// runMark is what one run adds to the file of its report: all have one length.
const runMark = len("1764374400000000000 0000001\n")

// countRun notes a run where it outlives the process, and returns its number, from 1.
func countRun(dir string, key report.Key) (int, error) {
	f, err := os.OpenFile(runFile(dir, key), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	mark := fmt.Appendf(nil, "%019d %07d\n", time.Now().UnixNano(), os.Getpid())
	if _, err := f.Write(mark); err != nil {
		return 0, err
	}
	all, err := os.ReadFile(f.Name())
	if err != nil {
		return 0, err
	}
	return bytes.LastIndex(all, mark)/runMark + 1, nil
}

func runFile(dir string, key report.Key) string {
	return filepath.Join(dir, string(key[:2]), string(key))
}

// runsOf reads when each run of a report began.
func runsOf(dir string, key report.Key) (began []time.Time) {
	all, _ := os.ReadFile(runFile(dir, key)) // without a file there was no run
	for line := range strings.Lines(string(all)) {
		at, _, _ := strings.Cut(line, " ")
		if n, err := strconv.ParseInt(strings.TrimLeft(at, "0"), 10, 64); err == nil {
			began = append(began, time.Unix(0, n))
		}
	}
	return began
}

// makeRuns makes the directories.
func makeRuns(dir string) error {
	for i := range 256 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("%02x", i)), 0o700); err != nil {
			return err
		}
	}
	return nil
}
