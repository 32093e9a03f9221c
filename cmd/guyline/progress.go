package main

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// aboveBar writes log lines above a progress bar, without control characters that JSON allows.
type aboveBar struct {
	mu  sync.Mutex
	w   io.Writer
	bar *progressbar.ProgressBar
}

func (b *aboveBar) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		_ = b.bar.Clear()
		defer func() { _ = b.bar.RenderBlank() }()
	}
	if _, err := b.w.Write(escapeControls(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// progress shows how far something is, on a terminal only.
type progress struct{ above *aboveBar }

// startProgress begins a bar. A total that is not known yet is 1: for -1 the library starts a goroutine that never ends.
func (a *app) startProgress(what string, total int64) progress {
	if !isTerminal(a.stderr) {
		return progress{}
	}
	a.above.mu.Lock()
	defer a.above.mu.Unlock()
	a.above.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("reports"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())
	return progress{a.above}
}

// to moves the bar; total 0 leaves its end where it is.
func (p progress) to(n, total int64) {
	if p.above == nil {
		return
	}
	p.above.mu.Lock()
	defer p.above.mu.Unlock()
	if p.above.bar == nil {
		return
	}
	if total > 0 {
		p.above.bar.ChangeMax64(total)
	}
	_ = p.above.bar.Set64(n)
}

func (p progress) end() {
	if p.above == nil {
		return
	}
	p.above.mu.Lock()
	defer p.above.mu.Unlock()
	if p.above.bar != nil {
		p.above.bar = nil
		_, _ = io.WriteString(p.above.w, "\r\x1b[K") // back to the margin, erase the line
	}
}
