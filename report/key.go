package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Key is an idempotency key: 64 lower-case hex digits.
type Key string

// NewKey is hex(sha256(site + ":" + uri)). It is a storage format and never changes.
func NewKey(site, uri string) Key { return sum(site, ":", uri) }

// UndecodableKey names an event that has no readable site and URI: hex(sha256(":undecodable:" + body)).
// No real report can have it, as a site_id is not empty and has no colon.
func UndecodableKey(body []byte) Key { return sum(":undecodable:", string(body)) }

// AuditHash seals a reason to a report: hex(sha256(key + ":" + reason)), the reason exactly as
// stored, which is what [Clean] returned.
func AuditHash(k Key, reason string) string { return string(sum(string(k), ":", reason)) }

// PayloadHash is hex(sha256(body)): it tells whether two payloads are the same byte for byte.
func PayloadHash(body []byte) string { return string(sum(string(body))) }

func sum(parts ...string) Key {
	var (
		room   [256]byte // no site and few URIs need more
		digits [2 * sha256.Size]byte
	)
	text := room[:0]
	for _, p := range parts {
		text = append(text, p...)
	}
	digest := sha256.Sum256(text)
	hex.Encode(digits[:], digest[:])
	return Key(digits[:])
}

// Ref names a report as subjects and bucket keys do.
type Ref struct {
	Site Token
	Key  Key
}

// Ref names the event's report.
func (e Event) Ref() Ref { return Ref{NewToken(e.SiteID), e.Key()} }

// ParseKey accepts a whole key, in either case.
func ParseKey(s string) (Key, error) {
	if len(s) != 64 || !IsKeyPrefix(s) {
		return "", fmt.Errorf("%q is not a key of 64 hex digits", s)
	}
	return Key(strings.ToLower(s)), nil
}

// IsKeyPrefix reports whether s could be the beginning of a key: 1-64 hex digits.
func IsKeyPrefix(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// Short is the key's first 12 digits, for logs and tables.
func (k Key) Short() string { return string(k[:min(12, len(k))]) }

// Token is a site in subjects and bucket keys: bytes outside [A-Za-z0-9_-] are written =XX in upper-case
// hex, so that "NY 12.4" becomes "NY=2012=2E4".
type Token string

// NoSite is the token of reports whose site cannot be read. No site has it.
const NoSite Token = "="

const upperHex = "0123456789ABCDEF"

// NewToken writes a site as a token. An empty site is [NoSite].
func NewToken(site string) Token {
	if site == "" {
		return NoSite
	}
	var b strings.Builder
	for i := range len(site) {
		if c := site[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return Token(b.String())
}

var errToken = errors.New("not a site token")

// Site turns a token back into the site. It accepts exactly what [NewToken] writes; [NoSite] is "".
func (t Token) Site() (string, error) {
	if t == NoSite {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case plain(c):
			b.WriteByte(c)
		case c == '=' && i+2 < len(t):
			hi, lo := strings.IndexByte(upperHex, t[i+1]), strings.IndexByte(upperHex, t[i+2])
			if hi < 0 || lo < 0 || plain(byte(hi<<4|lo)) {
				return "", fmt.Errorf("%w: %.64q", errToken, string(t))
			}
			b.WriteByte(byte(hi<<4 | lo))
			i += 2
		default:
			return "", fmt.Errorf("%w: %.64q", errToken, string(t))
		}
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("%w: it is empty", errToken)
	}
	return b.String(), nil
}

func plain(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
