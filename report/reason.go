package report

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxReason is the most that a reason may have, in bytes.
const MaxReason = 1024

// Clean makes any text fit to be a reason, one line that can be stored in a header, hashed and shown:
// invalid UTF-8 becomes U+FFFD, control characters and line separators become a space, runs of
// space collapse, the ends are trimmed, URIs lose userinfo and query (see [RedactURI]), and
// what is over [MaxReason] bytes is cut at a rune. Cleaning a clean reason changes nothing.
func Clean(s string) string {
	if len(s) > looked { // half a URI cannot be redacted
		s = lastURI.ReplaceAllString(Cut(s, looked), "")
	}
	return Cut(RedactURI(oneLine(s)), MaxReason)
}

// Line makes any text fit to be shown or stored as one line of at most n bytes, as [Clean] does. Marks that turn the direction of text
// become a space, too: on a terminal they could make a line read as another. URIs stay as they are: those with passwords must be redacted
// first, as half of one cannot be.
func Line(s string, n int) string {
	if s = Cut(s, looked); !tidy(s) {
		s = oneLine(onward(s))
	}
	return Cut(s, n)
}

// tidy reports whether s is one line as it is, as nearly every text is: words of plain ASCII with one space between them.
func tidy(s string) bool {
	after := byte(' ')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && after == ' ' {
			return false
		}
		after = c
	}
	return s == "" || after != ' '
}

// onward has no marks of direction. [Clean] leaves them in: hashes are over reasons as they are stored.
func onward(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// looked is how much of a text is looked at, in bytes: an error may have megabytes.
const looked = 16 * MaxReason

func oneLine(s string) string {
	if s = Cut(s, looked); tidy(s) {
		return s
	}
	var b strings.Builder
	space := false
	for _, r := range s { // an invalid byte is read as U+FFFD
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// Cut shortens s to at most n bytes without splitting a rune or leaving a space at the end.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimRight(s[:n], " ")
}

// A URI's slashes may be escaped, as some write them in JSON.
const begin = `[A-Za-z][A-Za-z0-9+.\-]*:(?:\\?/){2}`

var (
	uri      = regexp.MustCompile(begin + `\S*`)
	lastURI  = regexp.MustCompile(uri.String() + `$`)
	userinfo = regexp.MustCompile(`(` + begin + `)[^\s/?#]*@`)
)

// RedactURI removes userinfo and query from every URI in s, as they carry passwords and signatures, also where one follows another
// without a space. Everything from the '?' to the next space goes, except closing punctuation at the very end.
func RedactURI(s string) string {
	if strings.Contains(s, "@") {
		s = userinfo.ReplaceAllString(s, "$1")
	}
	if !strings.Contains(s, "?") {
		return s
	}
	return uri.ReplaceAllStringFunc(s, func(u string) string {
		u, query, _ := strings.Cut(u, "?")
		return u + query[len(strings.TrimRight(query, `"':;,.)]}>`)):]
	})
}

// oneURI is a text that is a URI from its first byte to its last, also one with its slashes mistyped.
var oneURI = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.\-]+:[/\\]+)([^/\\?#]*)((?s:.*))$`)

// RedactSource is [RedactURI] of a text that is one source_uri and nothing else. As its end is known, userinfo goes also where a
// blank or a slash in a password, or a mistyped "://", would hide it from RedactURI.
func RedactSource(s string) string {
	m := oneURI.FindStringSubmatch(s)
	if m == nil || len(s) > 5 && strings.EqualFold(s[:5], "file:") { // what follows file:/ is a path
		return RedactURI(s)
	}
	authority, path := m[2], m[3]
	path, query, asks := strings.Cut(path, "?")
	at := strings.LastIndexByte(authority, '@')
	switch {
	case at >= 0:
		authority = authority[at+1:]
	case hasPort(authority):
	default: // what stands after the colon is no port, but a password up to a slash or a question mark in it
		if i := strings.LastIndexByte(path, '@'); i >= 0 {
			authority, path = path[i+1:], ""
		} else if asks && strings.Contains(query, "@") {
			authority, path = "", ""
		}
	}
	return RedactURI(m[1] + authority + path)
}

// hasPort reports whether nothing but digits follows the host's colon, if it has one.
func hasPort(authority string) bool {
	_, port, found := strings.Cut(authority[strings.LastIndexByte(authority, ']')+1:], ":")
	return !found || strings.Trim(port, "0123456789") == ""
}
