package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/guyline/guyline/report"
)

const (
	memoryPages = 2048             // of 64 KiB: 128 MiB for one file
	timeLimit   = 20 * time.Second // for one file
)

// engine runs PDFium in a sandbox, with a new instance for each file.
type engine struct {
	pool  pdfium.Pool
	cache wazero.CompilationCache
	slots chan struct{} // one per inspection under way
	limit time.Duration // timeLimit, but for tests
}

func openEngine(ctx context.Context, cacheDir string, log *slog.Logger) (*engine, error) {
	cache := wazero.NewCompilationCache()
	if cacheDir != "" {
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(cacheDir); err != nil {
			return nil, fmt.Errorf("open the cache of the PDF engine: %w; choose a directory that can be written", err)
		}
	}
	slow := time.AfterFunc(time.Second, func() {
		log.Info("preparing the PDF engine: without a compiled copy in the cache it takes about 5 seconds of CPU time", "cache", cacheDir)
	})
	defer slow.Stop()
	e := &engine{cache: cache, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), limit: timeLimit}
	var err error
	e.pool, err = webassembly.Init(webassembly.Config{
		// The context lives as long as the engine. Stopping a worker must not cut its inspections short.
		Context:  experimental.WithCompilationWorkers(context.WithoutCancel(ctx), cap(e.slots)),
		MaxIdle:  1,
		MaxTotal: cap(e.slots),
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
	return e, nil
}

func (e *engine) close() error {
	err := e.pool.Close()
	if cacheErr := e.cache.Close(context.Background()); err == nil {
		err = cacheErr
	}
	return err
}

var errTimeLimit = errors.New("the inspection exceeded its time limit")

// inspect asks PDFium about the size bytes of r. It returns when no call into the instance is running any more.
func (e *engine) inspect(ctx context.Context, r io.ReaderAt, size int64) (document, error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return document{}, ctx.Err()
	}
	instance, err := e.pool.GetInstanceWithContext(ctx)
	if err != nil {
		return document{}, report.Transient(report.CodeUnclassified, fmt.Errorf("start the PDF engine: %w", err))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.limit, errTimeLimit)
	defer cancel()
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		instance.Kill()
		close(killed)
	})
	source := &source{r: io.NewSectionReader(r, 0, size)}
	doc, err := describe(instance, source, size)
	interrupted := !stop()
	if interrupted {
		<-killed
	} else {
		instance.Kill() // not Close, which would run more of the file's doing, without a limit
	}
	switch {
	case err == nil:
		return doc, nil
	case interrupted && context.Cause(ctx) == errTimeLimit:
		return document{}, report.Poison(report.CodeKilledTime, fmt.Errorf("the PDF engine was killed after %v; repair or replace the file", e.limit))
	case interrupted:
		return document{}, ctx.Err()
	case source.err != nil:
		return document{}, fileError(source.err)
	}
	return document{}, rejection(err)
}

// describe is the conversation with one instance. Any call may fail because the instance was killed.
func describe(instance pdfium.Pdfium, source io.ReadSeeker, size int64) (document, error) {
	opened, err := instance.OpenDocument(&requests.OpenDocument{FileReader: source, FileReaderSize: size})
	if err != nil {
		return document{}, err
	}
	count, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return document{}, err
	}
	if count.PageCount < 1 {
		return document{}, pdfiumerrors.ErrPage
	}
	if _, err := instance.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: opened.Document, Index: 0}); err != nil {
		return document{}, err
	}
	doc := document{pages: count.PageCount}
	// The rest is worth having, but no reason to refuse the file: many have no such entries at all.
	if v, err := instance.FPDF_GetFileVersion(&requests.FPDF_GetFileVersion{Document: opened.Document}); err == nil {
		doc.version = fmt.Sprintf("%d.%d", v.FileVersion/10, v.FileVersion%10)
	}
	tags := []string{"Title", "Producer", "CreationDate"}
	if meta, err := instance.GetMetaData(&requests.GetMetaData{Document: opened.Document, Tags: &tags}); err == nil {
		doc.title, doc.producer, doc.created = meta.Tags[0].Value, meta.Tags[1].Value, meta.Tags[2].Value
	}
	instance.FPDF_CloseDocument(&requests.FPDF_CloseDocument{Document: opened.Document}) // the library drops its reference to source
	return doc, nil
}

// rejection is PDFium's error with a code.
func rejection(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n") // a trap brings its stack along
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return report.Poison(report.CodeEncrypted, errors.New("the file needs a password; store it without one"))
	case errors.Is(err, pdfiumerrors.ErrPage):
		return report.Poison(report.CodeNoPages, errors.New("the file has no page that can be loaded; repair or replace it"))
	case errors.Is(err, pdfiumerrors.ErrFormat), errors.Is(err, pdfiumerrors.ErrFile), errors.Is(err, pdfiumerrors.ErrUnknown):
		return report.Poison(report.CodeMalformedPDF, fmt.Errorf("unparseable structure (PDFium error %s); repair or replace the file", line))
	case line == "wasm error: unreachable": // how PDFium ends when it gets no more memory
		return report.Poison(report.CodeKilledMemory, fmt.Errorf("the PDF engine gave up, most likely for lack of memory: it has %d MiB; repair or replace the file", memoryPages/16))
	}
	return report.Poison(report.CodeCrashed, fmt.Errorf("the PDF engine crashed on the file: %s; repair or replace it", line))
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
