package extract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/guyline/guyline/extract/child"
	"github.com/guyline/guyline/extract/command"
	"github.com/guyline/guyline/extract/pdf"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/report"
)

// Config says where reports come from and how they are inspected.
type Config struct {
	Source   source.Config
	CacheDir string // keeps the compiled PDF engine, 22 MB; empty = compile for each process
	Command  string // an extractor in place of the built-in inspection, see package command; empty = none

	// Self is the program and arguments that run [Child] with the arguments that follow. Nil is this program's own file with
	// the argument "extract-child"; a program of your own calls Child when it is started like that.
	Self []string
}

const hidden = "extract-child" // the argument that makes this program an extraction process

// DefaultCacheDir is the directory guyline in the user's cache directory, or empty if the system knows none.
// The program and all tests share it: one compilation serves them all.
func DefaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "guyline")
}

// Extractor reads reports. Its methods may be called from many goroutines.
type Extractor struct {
	sources *source.Sources
	pool    *child.Pool      // nil with a command
	command *command.Command // nil without
	turns   chan struct{}    // one per inspection under way
}

// Open checks the configuration and starts the first extraction process. With a cold cache that takes several seconds,
// which it announces in the log. A wrong field is a [report.ConfigError]. Stopping ctx later does not stop inspections. Call
// [Extractor.Close] after the last Extract has returned.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Extractor, error) {
	if cfg.Self == nil {
		if len(os.Args) > 1 && os.Args[1] == hidden { // or each process would start another
			return nil, errors.New("extract: this process was started to inspect files; call extract.Child first thing in main")
		}
		self, err := self()
		if err != nil {
			return nil, fmt.Errorf("extract: find this program's own file: %w", err)
		}
		cfg.Self = []string{self, hidden}
	}
	// Absolute, as the processes are not told the working directory.
	if cfg.CacheDir != "" {
		var err error
		if cfg.CacheDir, err = filepath.Abs(cfg.CacheDir); err != nil {
			return nil, fmt.Errorf("extract: find the cache directory: %w", err)
		}
	}
	if cfg.Command == "" {
		if err := pdf.MakeCache(cfg.CacheDir); err != nil { // here, as the process can return words alone
			return nil, fmt.Errorf("extract: %w", &report.ConfigError{Field: "CacheDir", Err: err})
		}
	}
	sources, err := source.Open(cfg.Source, log)
	if err != nil {
		return nil, fmt.Errorf("extract: %w", err)
	}
	x := &Extractor{sources: sources, turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	if cfg.Command != "" {
		x.command, err = command.New(command.Config{Line: cfg.Command, Exec: with(cfg.Self, "exec")})
	} else {
		x.pool, err = child.Open(ctx, child.Config{Command: with(cfg.Self, "inspect", cfg.CacheDir)}, log)
	}
	if err != nil {
		return nil, fmt.Errorf("extract: %w", errors.Join(err, sources.Close()))
	}
	return x, nil
}

// self is this program's own file. On Linux it is one that stays the same when an update replaces the program.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

func with(command []string, args ...string) []string {
	return append(append([]string{}, command...), args...)
}

// Close ends the extraction processes, which have nothing to do any more, and then frees the sources they read from.
func (x *Extractor) Close() error {
	var err error
	if x.pool != nil {
		err = x.pool.Close()
	}
	if err := errors.Join(err, x.sources.Close()); err != nil {
		return fmt.Errorf("extract: close: %w", err)
	}
	return nil
}

// Extract fetches and inspects one report. The result is [Facts], or what the command prints. An error has a kind and code of
// package report; if ctx has ended it is ctx's error, whatever else went wrong, unless its deadline has passed since the file was fetched.
func (x *Extractor) Extract(ctx context.Context, ev report.Event) (report.Result, error) {
	result, err := x.extract(ctx, ev)
	if err != nil && ctx.Err() != nil && !errors.Is(err, errLate) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("extract %s: %w", report.RedactSource(ev.SourceURI), err)
	}
	return result, nil
}

func (x *Extractor) extract(ctx context.Context, ev report.Event) (report.Result, error) {
	f, err := x.sources.Fetch(ctx, ev.SourceURI)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	result, err := x.inspect(ctx, f, ev)
	if changed := f.Settled(ctx); changed != nil && !errors.Is(err, errLate) {
		return nil, changed // a verdict on a file that changes would be a verdict on nothing
	}
	return result, err
}
