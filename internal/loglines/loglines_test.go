package loglines_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/guyline/guyline/internal/loglines"
	"github.com/guyline/guyline/internal/natstest"
)

// writes remembers each write.
type writes struct {
	mu  sync.Mutex
	all []string
	err error
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), w.err
}

func (w *writes) number() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

func (w *writes) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.all, "")
}

// Lines come in their order and whole, many of them in a write.
func TestGathers(t *testing.T) {
	t.Parallel()
	out := &writes{}
	w := loglines.New(out)
	line, want := strings.Repeat("x", 99)+"\n", ""
	for range 5000 {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("%d bytes written, %v", n, err)
		}
		want += line
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if out.text() != want {
		t.Error("the text is another one")
	}
	if n := out.number(); n > 1000 {
		t.Errorf("5000 lines took %d writes", n)
	}
}

// A line does not wait for ever, and a warning not at all.
func TestWaits(t *testing.T) {
	t.Parallel()
	out := &writes{}
	w := loglines.New(out)
	log := slog.New(loglines.Handler(slog.NewTextHandler(w, nil), w))
	log.Info("one")
	natstest.Eventually(t, "the line", func() bool { return strings.Contains(out.text(), "msg=one") })
	log.With("site", "A").WithGroup("g").Info("two", "n", 2)
	log.With("site", "A").WithGroup("g").Warn("three", "n", 3)
	if text := out.text(); !strings.Contains(text, "msg=two site=A g.n=2\n") || !strings.HasSuffix(text, "msg=three site=A g.n=3\n") {
		t.Errorf("after a warning there is %q", text)
	}
}

// Many goroutines may write.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	out := &writes{}
	w := loglines.New(out)
	log := slog.New(loglines.Handler(slog.NewJSONHandler(w, nil), w))
	var writing sync.WaitGroup
	for range 8 {
		writing.Go(func() {
			for i := range 200 {
				if i%50 == 49 {
					log.Warn("line")
				} else {
					log.Info("line")
				}
			}
		})
	}
	writing.Wait()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count([]byte(out.text()), []byte(`"msg":"line"}`+"\n")); n != 1600 {
		t.Errorf("%d lines, want 1600", n)
	}
}

// What cannot be written is told.
func TestFails(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	w := loglines.New(&writes{err: full})
	if _, err := w.Write([]byte("line\n")); err != nil {
		t.Errorf("before the write there is an error: %v", err)
	}
	if err := w.Flush(); !errors.Is(err, full) {
		t.Errorf("the flush says %v", err)
	}
}
