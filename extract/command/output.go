package command

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/guyline/guyline/report"
)

// stdout keeps what can be a result, with one byte for the line end, and calls full once if there is more.
type stdout struct {
	b    []byte
	over bool
	full func()
}

func (o *stdout) Write(p []byte) (int, error) {
	switch {
	case o.over:
	case len(o.b)+len(p) > report.MaxResult+1:
		o.over, o.b = true, nil
		o.full()
	default:
		o.b = append(o.b, p...)
	}
	return len(p), nil
}

// Bounds of the reason taken from stderr.
const (
	tailBytes   = 4 << 10
	reasonLines = 3
	reasonBytes = 800 // leaves room for who says it
)

// stderr keeps the last tailBytes of what is written.
type stderr struct {
	b   []byte
	cut bool // something came before b
}

func (o *stderr) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > tailBytes {
		p, o.cut = p[len(p)-tailBytes:], true
	}
	if over := len(o.b) + len(p) - tailBytes; over > 0 {
		o.b, o.cut = append(o.b[:0], o.b[over:]...), true
	}
	o.b = append(o.b, p...)
	return n, nil
}

// reason is the last lines as one. Nothing is cut before URIs are redacted, or the rest of one might pass as
// something else.
func (o *stderr) reason() string {
	b := o.b
	if o.cut { // the first word may be half a URI
		space := bytes.IndexFunc(b, unicode.IsSpace)
		if space < 0 {
			return "a single word of more than 4 KiB"
		}
		b = b[space:]
	}
	var lines []string
	for line := range bytes.Lines(b) {
		if s := report.RedactURI(report.Line(string(line), 3*tailBytes)); s != "" {
			lines = append(lines, s)
		}
	}
	if len(lines) == 0 {
		return "nothing on stderr says why"
	}
	s := strings.Join(lines[max(0, len(lines)-reasonLines):], " | ")
	if len(s) <= reasonBytes {
		return s
	}
	i := len(s) - reasonBytes
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return "..." + s[i:]
}

// lacksMemory reports whether the last words are those of a program whose allocation failed: Python, Go and V8,
// the JVM, C++, Rust, the C library and GNU tools.
func (o *stderr) lacksMemory() bool {
	for _, words := range []string{"MemoryError", "out of memory", "OutOfMemoryError", "std::bad_alloc", "memory allocation of ", "Cannot allocate memory", "memory exhausted"} {
		if bytes.Contains(o.b, []byte(words)) {
			return true
		}
	}
	return false
}
