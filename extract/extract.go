package extract

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/guyline/guyline/report"
)

// Config says where reports are and how large they may be.
type Config struct {
	FileRoot string // the directory that no read leaves; empty = the working directory
	MaxBytes int64  // the largest file, in bytes, up to 2 GiB - 1; 0 = 256 MiB
	CacheDir string // keeps the compiled PDF engine, 22 MB; empty = compile at every start
}

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
	root     *os.Root
	dir      string // absolute path of root
	maxBytes int64
	engine   *engine
}

// Open opens the file root and prepares the PDF engine. With a cold cache that takes several seconds, which
// it announces in the log; it cannot be interrupted. ctx bounds nothing else: stopping it later does not
// stop inspections. Call [Extractor.Close] after the last Extract has returned.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Extractor, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.MaxBytes < 1 || cfg.MaxBytes > 1<<31-1 {
		return nil, fmt.Errorf("extract: the largest file is set to %d bytes, allowed are 1 to %d", cfg.MaxBytes, 1<<31-1)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("extract: open: %w", err)
	}
	dir, err := filepath.Abs(cfg.FileRoot)
	if err != nil {
		return nil, fmt.Errorf("extract: find the file root: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("extract: open the file root: %w; create it or choose another", err)
	}
	engine, err := openEngine(ctx, cfg.CacheDir, log)
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("extract: %w", err)
	}
	return &Extractor{root, dir, cfg.MaxBytes, engine}, nil
}

// Close frees the PDF engine and the file root.
func (x *Extractor) Close() error {
	err := x.engine.close()
	if rootErr := x.root.Close(); err == nil {
		err = rootErr
	}
	if err != nil {
		return fmt.Errorf("extract: close: %w", err)
	}
	return nil
}

// Extract fetches and inspects one report. The result is [Facts]. An error has a kind and code of package report;
// if ctx has ended it is ctx's error, whatever else went wrong.
func (x *Extractor) Extract(ctx context.Context, ev report.Event) (report.Result, error) {
	facts, err := x.facts(ctx, ev)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("extract %s: %w", report.RedactURI(ev.SourceURI), err)
	}
	return report.NewResult(facts)
}

func (x *Extractor) facts(ctx context.Context, ev report.Event) (Facts, error) {
	path, err := pathBelow(x.dir, ev.SourceURI)
	if err != nil {
		return Facts{}, err
	}
	f, err := openFile(x.root, path, x.maxBytes)
	if err != nil {
		return Facts{}, err
	}
	defer f.Close()
	facts, err := x.inspect(ctx, f, ev)
	if changed := f.settled(); changed != nil {
		return Facts{}, changed
	}
	return facts, err
}
