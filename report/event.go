package report

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of an event, in bytes.
const (
	MaxSiteID    = 128
	MaxSourceURI = 2048
	// MaxMessage is the most that headers and body of an event may have together: 960 KiB. The
	// server's own limit is 1 MiB; the rest is room for a dead letter's headers.
	MaxMessage = 960 << 10
	maxDepth   = 64 // nesting of an event's JSON
)

// Event is one report handed over for processing.
type Event struct {
	SiteID    string         `json:"site_id"`            // 1-128 bytes of printable UTF-8 without ':'
	SourceURI string         `json:"source_uri"`         // 1-2048 bytes, compared as written
	Due       time.Time      `json:"due,omitzero"`       // the deadline; zero if there is none
	SHA256    string         `json:"sha256,omitempty"`   // 64 hex digits of the file's SHA-256, or empty
	Metadata  map[string]any `json:"metadata,omitempty"` // the publisher's own; numbers are json.Number
}

// ErrUndecodable says that a body is not one JSON object that can be read in only one way.
// ErrInvalid says that it is, but that a field breaks a rule of [Event].
var (
	ErrUndecodable = errors.New("undecodable event")
	ErrInvalid     = errors.New("invalid event")
)

// Decode reads the JSON body of an event. It returns an error that is [ErrUndecodable] or
// [ErrInvalid]; both are poison with the code of the same name, and both are known by
// [UndecodableKey].
//
// Names are matched exactly. A name that occurs twice in one object, at any depth, invalid UTF-8, an
// unpaired surrogate escape, more than 64 levels or anything after the object is undecodable: two readers
// could disagree on what it says.
func Decode(body []byte) (Event, error) {
	fields, err := Fields(body)
	if err != nil {
		return Event{}, err
	}
	var (
		e   Event
		due string
	)
	for name, into := range map[string]any{
		"site_id": &e.SiteID, "source_uri": &e.SourceURI, "due": &due, "sha256": &e.SHA256, "metadata": &e.Metadata,
	} {
		raw, ok := fields[name]
		if !ok {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			return Event{}, fmt.Errorf("%w: %s has the wrong type: %s", ErrInvalid, name, kindOf(raw))
		}
	}
	if due != "" {
		t, err := ParseDue(due)
		if err != nil {
			return Event{}, fmt.Errorf("%w: %v", ErrInvalid, err)
		}
		e.Due = t
	}
	return e, e.Validate()
}

// Fields reads one JSON object as strictly as [Decode], whatever its names. Its error is [ErrUndecodable].
func Fields(body []byte) (map[string]json.RawMessage, error) {
	if err := wellFormed(body); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrUndecodable, err)
	}
	var fields map[string]json.RawMessage // a map, as struct fields would match in any case
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrUndecodable, err)
	}
	return fields, nil
}

// Validate checks the bounds of each field. Its error is [ErrInvalid].
func (e Event) Validate() error {
	if err := ValidateSite(e.SiteID); err != nil {
		return err
	}
	switch n := len(e.SourceURI); {
	case n == 0:
		return fmt.Errorf("%w: source_uri is missing", ErrInvalid)
	case n > MaxSourceURI:
		return fmt.Errorf("%w: source_uri has %d bytes, at most %d are allowed", ErrInvalid, n, MaxSourceURI)
	case !utf8.ValidString(e.SourceURI):
		return fmt.Errorf("%w: source_uri is not UTF-8", ErrInvalid)
	}
	if e.SHA256 != "" {
		if b, err := hex.DecodeString(e.SHA256); err != nil || len(b) != 32 {
			return fmt.Errorf("%w: sha256 must be 64 hex digits", ErrInvalid)
		}
	}
	return nil
}

// ValidateSite checks a site_id alone. Its error is [ErrInvalid].
func ValidateSite(site string) error {
	switch {
	case site == "":
		return fmt.Errorf("%w: site_id is missing", ErrInvalid)
	case len(site) > MaxSiteID:
		return fmt.Errorf("%w: site_id has %d bytes, at most %d are allowed", ErrInvalid, len(site), MaxSiteID)
	case !utf8.ValidString(site):
		return fmt.Errorf("%w: site_id is not UTF-8", ErrInvalid)
	case strings.Contains(site, ":"):
		return fmt.Errorf("%w: site_id %q contains ':'", ErrInvalid, site)
	case strings.ContainsFunc(site, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%w: site_id %q contains an unprintable character", ErrInvalid, site)
	}
	return nil
}

// Key is the event's idempotency key.
func (e Event) Key() Key { return NewKey(e.SiteID, e.SourceURI) }

// ParseDue reads a deadline: an RFC 3339 time, or a date, which means its last second in UTC.
func ParseDue(s string) (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return day.Add(24*time.Hour - time.Second), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("due %.40q is neither an RFC 3339 time nor a date like 2026-12-01", s)
	}
	return t, nil
}

// wellFormed refuses JSON that encoding/json would accept by guessing.
func wellFormed(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("it is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil {
		return fmt.Errorf("it is not JSON: %v", orEmpty(err))
	} else if t != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	if err := objectNames(d, 1); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return pairedSurrogates(body)
}

// objectNames reads the rest of an object whose brace has been read, and finds repeated names.
func objectNames(d *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("it is not JSON: %v", orEmpty(err))
		}
		name := t.(string) // the decoder lets nothing else stand here
		if seen[name] {
			return fmt.Errorf("the name %.64q is repeated", name)
		}
		seen[name] = true
		if err := value(d, depth); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("it is not JSON: %v", orEmpty(err))
	}
	return nil
}

func value(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return fmt.Errorf("it is not JSON: %v", orEmpty(err))
	}
	switch t {
	case json.Delim('{'):
		return objectNames(d, depth+1)
	case json.Delim('['):
		if depth+1 > maxDepth {
			return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
		}
		for d.More() {
			if err := value(d, depth+1); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return fmt.Errorf("it is not JSON: %v", orEmpty(err))
		}
	}
	return nil
}

// pairedSurrogates refuses \ud800-\udfff escapes without their partner: encoding/json reads
// them all as U+FFFD, so that different URIs would share one key. The body is valid JSON.
func pairedSurrogates(body []byte) error {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++
		if body[i] != 'u' {
			continue
		}
		r := hex4(body[i+1:])
		i += 4
		switch {
		case r >= 0xDC00 && r <= 0xDFFF:
			return errors.New("it has an unpaired surrogate escape")
		case r >= 0xD800 && r <= 0xDBFF:
			rest := body[i+1:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' || hex4(rest[2:]) < 0xDC00 || hex4(rest[2:]) > 0xDFFF {
				return errors.New("it has an unpaired surrogate escape")
			}
			i += 6
		}
	}
	return nil
}

func hex4(b []byte) uint16 {
	var out [2]byte
	if len(b) < 4 {
		return 0
	}
	if _, err := hex.Decode(out[:], b[:4]); err != nil {
		return 0
	}
	return uint16(out[0])<<8 | uint16(out[1])
}

func orEmpty(err error) error {
	if err == io.EOF {
		return errors.New("it is empty or cut off")
	}
	return err
}

// kindOf names the JSON kind of a value for a message.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}
