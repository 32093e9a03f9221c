//go:build linux

package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

func TestNewErrors(t *testing.T) {
	t.Parallel()
	self := []string{os.Args[0], "exec"}
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Line: "", Exec: self}, "empty"},
		{Config{Line: " \t", Exec: self}, "empty"},
		{Config{Line: `python3 "my script.py"`, Exec: self}, "no shell"},
		{Config{Line: `python3 my\ script.py`, Exec: self}, "no shell"},
		{Config{Line: "python3 $HOME/x.py", Exec: self}, "no shell"},
		{Config{Line: "true | true", Exec: self}, "no shell"},
		{Config{Line: "no-such-program-here x", Exec: self}, "find the extractor"},
		{Config{Line: "true"}, "applies the limits"},
		{Config{Line: "true", Exec: self, Memory: 1 << 20}, "at least 67108864 bytes"},
		{Config{Line: "true", Exec: self, Time: -1}, "above 0"},
		{Config{Line: "true", Exec: self, TempDir: "/nonexistent"}, "temporary directory"},
	} {
		if c, err := New(tt.cfg); c != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.cfg.Line, err, tt.want)
		}
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	const content = "%PDF-1.7 and so on"
	got, err := role(t, Config{}, "good").Inspect(t.Context(), event, unnamed(t, content))
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	if err := json.Unmarshal(got, &said); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"event": map[string]any{"site_id": "TWR-8842", "source_uri": "s3://reports/twr8842_q2.pdf", "metadata": map[string]any{"firm": "Acme"}},
		"once":  content, "twice": content, "direct": content, "path": "/dev/fd/3",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code, words string
		kind        report.Kind
		want        report.Code
		reason      string
	}{
		{"65", "no signature", report.KindPoison, report.CodeRejected, "exited with code 65: no signature"},
		{"75", "model is loading", report.KindTransient, report.CodeTemporary, "exited with code 75: model is loading"},
		{"78", "no model", report.KindHold, report.CodeUnclassified, "no model"},
		{"1", "KeyError: 'x'", report.KindPoison, report.CodeUnclassified, "exited with code 1: KeyError: 'x'"},
		{"255", "", report.KindPoison, report.CodeUnclassified, "exited with code 255: nothing on stderr"},
		{"1", "MemoryError", report.KindPoison, report.CodeKilledMemory, "may use 1024 MiB"},
		{"65", "s3://user:pass@host/a?sig=secret", report.KindPoison, report.CodeRejected, "65: s3://host/a"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			line := script(t, "echo {}; echo \""+tt.words+"\" >&2; exit "+tt.code)
			got, err := program(t, Config{}, line).Inspect(t.Context(), event, unnamed(t, ""))
			if got != nil {
				t.Errorf("a result: %s", got)
			}
			wants(t, err, tt.kind, tt.want, tt.reason)
		})
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	object := func(n int) string { return `{"x":"` + strings.Repeat("x", n-8) + `"}` }
	for _, tt := range []struct {
		name, stdout string
		code         report.Code // empty = well
	}{
		{"nothing", "", report.CodeInvalidResult},
		{"a line end", "\n", report.CodeInvalidResult},
		{"text", "12 pages\n", report.CodeInvalidResult},
		{"an array", "[]", report.CodeInvalidResult},
		{"half an object", `{"a":`, report.CodeInvalidResult},
		{"two objects", "{}\n{}\n", report.CodeInvalidResult},
		{"no number", `{"a": NaN}`, report.CodeInvalidResult},
		{"Latin-1", "{\"a\": \"caf\xe9\"}", report.CodeInvalidResult},
		{"binary", "\x00\xff\x00", report.CodeInvalidResult},
		{"a byte too much", object(report.MaxResult + 1), report.CodeResultTooLarge},
		{"much too much", object(4 << 20), report.CodeResultTooLarge},
		{"just enough", object(report.MaxResult) + "\n", ""},
		{"space around", " \n{\"a\": 1}\r\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := role(t, Config{}, "print").Inspect(t.Context(), event, unnamed(t, tt.stdout))
			if tt.code != "" {
				if got != nil {
					t.Errorf("a result: %.80s", got)
				}
				wants(t, err, report.KindPoison, tt.code, "")
			} else if want := strings.TrimSpace(tt.stdout); err != nil || string(got) != want {
				t.Errorf("got %.80s, %v", got, err)
			}
		})
	}
}

func TestEndlessResult(t *testing.T) {
	t.Parallel()
	_, err := role(t, Config{}, "flood").Inspect(t.Context(), event, unnamed(t, ""))
	wants(t, err, report.KindPoison, report.CodeResultTooLarge, "65536")
}

func TestReasons(t *testing.T) {
	t.Parallel()
	rest := "er:password@host/?sig=secret" // of a URI whose beginning is no longer among the bytes kept
	half := "https://us" + rest + strings.Repeat(" ", tailBytes-len(rest)-len("\ngone")) + "\ngone"
	for _, tt := range []struct{ name, last, want string }{
		{"the last three lines", "\none\n\ntwo\n\tthree  \n four\n", "code 65: two | three | four"},
		{"nothing but garbage", "", "code 65: "},
		{"half a URI before a line", half, "code 65: gone"},
		{"half a URI", strings.Repeat("x", 5000) + "password@host", "a single word"},
		{"a long line", "\n" + strings.Repeat("word ", 600) + "end", "word end"},
		{"long letters", "\n" + strings.Repeat("ä", 1500) + "z", "äz"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := role(t, Config{}, "floodExit").Inspect(t.Context(), event, unnamed(t, tt.last))
			wants(t, err, report.KindPoison, report.CodeRejected, tt.want)
			if strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "secret") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Parallel()
	f := unnamed(t, "")
	stray, err := syscall.Dup(int(f.Fd())) // open in every child, unless somebody closes it there
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(stray)
	c := role(t, Config{}, "look")
	got, err := c.Inspect(t.Context(), event, f)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		FDs   []int
		Env   []string
		Temp  string
		Group bool
	}
	if err := json.Unmarshal(got, &said); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3}, said.FDs); diff != "" {
		t.Errorf("descriptors: %s", diff)
	}
	for _, name := range said.Env {
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "GUYLINE_FILE"}, name) {
			t.Errorf("%s was inherited", name)
		}
	}
	if !slices.Contains(said.Env, "LANG") || !said.Group || filepath.Dir(said.Temp) != c.temp {
		t.Errorf("got %+v", said)
	}
	if left, err := os.ReadDir(c.temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A stop ends a run without a verdict, and a full house is waited for as long as the context lasts.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	p := newPulse(t)
	c := role(t, Config{AtOnce: 1}, "hold", p.fifo)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.Inspect(ctx, event, unnamed(t, ""))
		ended <- err
	}()
	p.begins(t)
	soon, cancelSoon := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancelSoon()
	if _, err := c.Inspect(soon, event, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a free slot: %v", err)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("got %v, want the context's error", err)
	}
	p.ends(t)
}
