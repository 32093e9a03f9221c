package pdf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/guyline/guyline/report"
)

const (
	memoryPages = 2048            // of 64 KiB: 128 MiB for one file
	textBudget  = 3 * time.Second // for the text of one file, looked at between pages
	textLimit   = 5 * time.Second // then a page's text that does not come is given up
)

// Engine runs PDFium in a sandbox, with a new instance for each file. It inspects one file at a time; concurrent
// calls wait for each other.
type Engine struct {
	mu    sync.Mutex
	pool  pdfium.Pool
	cache wazero.CompilationCache
}

// MakeCache makes the directory that keeps the engine compiled, if need be.
func MakeCache(dir string) error {
	cache, err := openCache(dir)
	if err != nil {
		return err
	}
	return cache.Close(context.Background())
}

func openCache(dir string) (wazero.CompilationCache, error) {
	if dir == "" {
		return wazero.NewCompilationCache(), nil
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache of the PDF engine: %w; choose a directory that can be written", err)
	}
	return cache, nil
}

// Open prepares the engine. cacheDir keeps it compiled (22 MB): with a cold cache, or none (""), that takes about 5
// seconds of CPU time, with a warm one 0.3. Stopping ctx later does not stop inspections. Close the engine when done.
func Open(ctx context.Context, cacheDir string) (*Engine, error) {
	cache, err := openCache(cacheDir)
	if err != nil {
		return nil, err
	}
	pool, err := webassembly.Init(webassembly.Config{
		Context:  experimental.WithCompilationWorkers(context.WithoutCancel(ctx), runtime.GOMAXPROCS(0)),
		MaxIdle:  1,
		MaxTotal: 1,
		FSConfig: wazero.NewFSConfig(), // no file system: the default is all of it
		Stdout:   io.Discard,
		Stderr:   io.Discard,
		RuntimeConfig: wazero.NewRuntimeConfig().
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling). // PDFium needs them
			WithMemoryLimitPages(memoryPages).
			WithCloseOnContextDone(true). // or Kill could not interrupt a call
			WithCompilationCache(cache),
	})
	if err != nil {
		cache.Close(ctx)
		return nil, fmt.Errorf("start the PDF engine: %w; if its cache %s is damaged, delete it", err, cacheDir)
	}
	return &Engine{pool: pool, cache: cache}, nil
}

// Close frees the engine. No inspection may be running.
func (e *Engine) Close() error {
	return errors.Join(e.pool.Close(), e.cache.Close(context.Background()))
}

// Inspect asks PDFium about the size bytes of r, and takes no longer than limit. It returns when no call into the
// instance is running any more.
func (e *Engine) Inspect(ctx context.Context, r io.ReaderAt, size int64, limit time.Duration) (Document, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	instance, err := e.pool.GetInstanceWithContext(ctx)
	if err != nil {
		return Document{}, report.Transient(report.CodeUnclassified, fmt.Errorf("start the PDF engine: %w", err))
	}
	end := time.Now().Add(limit)
	source := &source{r: io.NewSectionReader(r, 0, size)}
	talk := conversation{Pdfium: instance, size: size}
	killed, err := within(ctx, limit, instance, func() error { return talk.describe(source) })
	described := err == nil
	if described && !killed {
		// The verdict stands; whatever happens now costs no more than the text.
		killed, err = within(ctx, min(textLimit, time.Until(end)), instance, func() error { return talk.readText(time.Now().Add(textBudget)) })
		talk.doc.TextPartial = err != nil || len(talk.doc.TextLengths) < talk.doc.Pages
	}
	if !killed {
		_ = instance.Kill() // not Close, which would run more of the file's doing, without a limit
	}
	switch {
	case described:
		return talk.doc, nil
	case ctx.Err() != nil:
		return Document{}, ctx.Err()
	case killed:
		return Document{}, report.Poison(report.CodeKilledTime, fmt.Errorf("the PDF engine was killed after %v; repair or replace the file", limit))
	case source.err != nil:
		return Document{}, report.Transient(report.CodeConnection, fmt.Errorf("the storage failed while the file was inspected: %w", source.err))
	}
	return Document{}, rejection(err)
}

// within runs work on the instance, and kills the instance when ctx ends or the limit passes. It says whether it did.
func within(ctx context.Context, limit time.Duration, instance pdfium.Pdfium, work func() error) (killed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = instance.Kill()
		close(done)
	})
	err = work()
	if stop() {
		return false, err
	}
	<-done
	return true, err
}

// source is the file as PDFium reads it. It remembers why a read failed, which PDFium would call a bad format.
type source struct {
	r   *io.SectionReader
	err error
}

func (s *source) Seek(offset int64, whence int) (int64, error) { return s.r.Seek(offset, whence) }

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
