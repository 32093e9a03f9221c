//go:build linux

package command

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
)

var event = report.Event{SiteID: "TWR-8842", SourceURI: "s3://reports/twr8842_q2.pdf", Metadata: map[string]any{"firm": "Acme"}}

// program makes a command of a role of the test binary, or of a whole line.
func program(t *testing.T, cfg Config, line ...string) *Command {
	t.Helper()
	cfg.Line, cfg.Exec, cfg.TempDir = strings.Join(line, " "), []string{os.Args[0], "exec"}, t.TempDir()
	if cfg.Time == 0 {
		cfg.Time = time.Minute
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func role(t *testing.T, cfg Config, args ...string) *Command {
	t.Helper()
	return program(t, cfg, append([]string{os.Args[0]}, args...)...)
}

// script is the command line of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "sh " + path
}

// unnamed is an open file without a name, read to its end.
func unnamed(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "report.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	return f
}

// wants checks an error's kind, code and words.
func wants(t *testing.T, err error, kind report.Kind, code report.Code, words string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v %s", kind, code)
	}
	got := report.Classify(err)
	if got.Kind != kind || got.Code != code || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v %s: %v\nwant %v %s: ...%s...", got.Kind, got.Code, err, kind, code, words)
	}
	if n := len(err.Error()); n > report.MaxReason || strings.ContainsAny(err.Error(), "\n\r\x00") {
		t.Errorf("not one line of a reason's length: %d bytes, %.200q", n, err)
	}
}

// pulse knows whether a process that opened its fifo is still alive.
type pulse struct {
	fifo string
	r, w *os.File
}

func newPulse(t *testing.T) *pulse {
	t.Helper()
	p := &pulse{fifo: filepath.Join(t.TempDir(), "fifo")}
	if err := syscall.Mkfifo(p.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.r, err = os.OpenFile(p.fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	if p.w, err = os.OpenFile(p.fifo, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.r.Close(); p.w.Close() })
	if err := p.r.SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return p
}

// begins waits for the first process.
func (p *pulse) begins(t *testing.T) {
	t.Helper()
	if _, err := p.r.Read(make([]byte, 1)); err != nil {
		t.Fatalf("nobody came: %v", err)
	}
}

// ends waits until no process is left.
func (p *pulse) ends(t *testing.T) {
	t.Helper()
	p.w.Close()
	if _, err := io.Copy(io.Discard, p.r); err != nil {
		t.Errorf("somebody is left: %v", err)
	}
}
