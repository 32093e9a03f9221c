// Package loglines writes log lines that come close together in one go: a write for each costs more than its text.
package loglines

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// latest is how long a line may wait for others.
	latest = 5 * time.Millisecond
	// fullest is how many bytes may wait.
	fullest = 32 << 10
)

// Writer gathers lines for at most 5 ms and 32 KiB. A process that is killed loses those that wait: what must not be lost goes through
// [Handler] as a warning or more, or is followed by [Writer.Flush]. It is safe for concurrent use.
type Writer struct {
	w io.Writer

	mu      sync.Mutex
	waiting []byte
	clock   *time.Timer // nil while nothing waits
	err     error       // of the last write
}

// New gathers what is written to w.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Write takes lines, whole ones. The error is that of an earlier write.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, lines...)
	switch {
	case len(w.waiting) >= fullest:
		w.flush()
	case w.clock == nil:
		w.clock = time.AfterFunc(latest, func() { _ = w.Flush() })
	}
	return len(lines), w.err
}

// Flush writes what waits.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if w.clock != nil {
		w.clock.Stop()
		w.clock = nil
	}
	if len(w.waiting) > 0 {
		_, w.err = w.w.Write(w.waiting)
		w.waiting = w.waiting[:0]
	}
}

// Handler is h, which writes to w, with warnings and errors written at once, after everything before them.
func Handler(h slog.Handler, w *Writer) slog.Handler { return handler{h, w} }

type handler struct {
	slog.Handler
	w *Writer
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn { // also after a failed write
		err = cmp.Or(h.w.Flush(), err)
	}
	return err
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.w}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.w} }
