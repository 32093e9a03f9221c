package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/guyline/guyline/extract/limits"
	"github.com/guyline/guyline/report"
)

// Config says what to run and within which limits.
type Config struct {
	// Line is the program and its arguments, separated by spaces. There is no shell: quotes, variables, pipes
	// and redirections are refused. Whoever needs them names a script.
	Line string
	// Exec is our own program and the hidden command whose body is limits.Exec with descriptors up to 3 kept,
	// such as {"/usr/bin/guyline", "extract-child", "exec"}.
	Exec []string

	Time    time.Duration // for one run; 0 = 20 s
	Memory  int64         // for each process of a run, in bytes, at least 64 MiB; 0 = 1 GiB
	AtOnce  int           // runs at once; 0 = one per CPU
	TempDir string        // where each run gets its TMPDIR; empty = the system's
}

// What no extractor should ever need more of.
const (
	maxFileSize = 1 << 30 // bytes of a file that it writes
	maxFiles    = 256     // open descriptors
	minMemory   = 64 << 20
)

// Command is an extractor program. Its methods may be called from many goroutines.
type Command struct {
	args   []string // of our own program, which becomes the extractor
	limits limits.Limits
	time   time.Duration
	temp   string
	env    []string
	slots  chan struct{} // one per run under way
}

// New checks the configuration, finds the program and removes the temporary directories that killed workers have
// left. Its error says what to correct.
func New(cfg Config) (*Command, error) {
	argv, err := split(cfg.Line)
	if err != nil {
		return nil, &report.ConfigError{Field: "Command", Err: err}
	}
	if argv[0], err = exec.LookPath(argv[0]); err != nil {
		return nil, &report.ConfigError{Field: "Command", Err: fmt.Errorf("find the extractor: %w; install it or correct the command", err)}
	}
	if len(cfg.Exec) == 0 {
		return nil, errors.New("command: no program given that applies the limits")
	}
	if cfg.Time == 0 {
		cfg.Time = 20 * time.Second
	}
	if cfg.Memory == 0 {
		cfg.Memory = 1 << 30
	}
	if cfg.TempDir == "" {
		cfg.TempDir = os.TempDir()
	}
	if cfg.AtOnce == 0 {
		cfg.AtOnce = runtime.GOMAXPROCS(0)
	}
	if cfg.Time < 0 || cfg.Memory < minMemory || cfg.AtOnce < 0 {
		return nil, fmt.Errorf("command: the extractor is given %v, %d bytes of memory and %d runs at once; "+
			"allowed are times and numbers above 0 and at least %d bytes", cfg.Time, cfg.Memory, cfg.AtOnce, minMemory)
	}
	if err := sweep(cfg.TempDir); err != nil {
		return nil, fmt.Errorf("command: look into the temporary directory: %w; create it or choose another", err)
	}
	c := &Command{
		limits: limits.Limits{Data: cfg.Memory, FileSize: maxFileSize, Files: maxFiles,
			CPU: cfg.Time * time.Duration(runtime.NumCPU())}, // what it can use in its time; beyond it, it has escaped
		time:  cfg.Time,
		temp:  cfg.TempDir,
		slots: make(chan struct{}, cfg.AtOnce),
	}
	c.args = append(append(c.args, cfg.Exec...), c.limits.Args(argv)...)
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL"} {
		if value, ok := os.LookupEnv(name); ok {
			c.env = append(c.env, name+"="+value)
		}
	}
	return c, nil
}

// split cuts a command line at its spaces and refuses what only a shell could understand.
func split(line string) ([]string, error) {
	if i := strings.IndexAny(line, "'\"`$|&;<>\x00"); i >= 0 || strings.Contains(line, `\ `) {
		return nil, fmt.Errorf("the command %.80q is split at spaces, and no shell reads it; put quotes, variables and pipes into a script and name that", line)
	}
	argv := strings.Fields(line)
	if len(argv) == 0 {
		return nil, errors.New("the command is empty; name a program")
	}
	return argv, nil
}

// Inspect runs the extractor on one fetched file, which may have no name any more, and whose offset it moves. The
// result has been checked. An error has a kind and code of package report; if ctx has ended it is ctx's error.
func (c *Command) Inspect(ctx context.Context, ev report.Event, f *os.File) (report.Result, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	event, err := json.Marshal(ev)
	if err != nil {
		return nil, report.Poison(report.CodeInvalidEvent, fmt.Errorf("write the event for the extractor: %w", err))
	}
	result, err := c.run(ctx, event, f)
	if died(err) && ctx.Err() == nil {
		result, err = c.run(ctx, event, f)
	}
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return result, err
}

// died tells a verdict on a killed process from one that it gave itself.
func died(err error) bool {
	switch report.Classify(err).Code {
	case report.CodeKilledTime, report.CodeKilledMemory, report.CodeCrashed:
		return err != nil
	}
	return false
}

// run is one process: started, given the event, waited for and judged.
func (c *Command) run(ctx context.Context, event []byte, f *os.File) (report.Result, error) {
	temp, err := newWorkspace(c.temp)
	if err != nil {
		return nil, report.Transient(report.CodeOutOfResources, fmt.Errorf("make a temporary directory for the extractor: %w; make room there", err))
	}
	defer temp.remove()
	ctx, cancel := context.WithTimeoutCause(ctx, c.time, errTime)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	e := ending{limits: c.limits, time: c.time, stdout: stdout{full: func() { stop(errFull) }}}
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(event), &e.stdout, &e.stderr
	cmd.Env = append(c.env[:len(c.env):len(c.env)], "TMPDIR="+temp.path)
	if err := give(cmd, f); err != nil {
		return nil, report.Transient(report.CodeOutOfResources, fmt.Errorf("give the file to the extractor: %w", err))
	}
	p, err := limits.Start(cmd)
	if err != nil {
		return nil, report.Transient(report.CodeOutOfResources, fmt.Errorf("start the extractor: %w", err))
	}
	err = p.Wait(ctx)
	if cmd.ProcessState == nil {
		return nil, report.Transient(report.CodeOutOfResources, fmt.Errorf("wait for the extractor: %w", err))
	}
	e.state, e.cause = cmd.ProcessState, context.Cause(ctx)
	return e.judge()
}
