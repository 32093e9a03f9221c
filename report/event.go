package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	members, err := scan(body)
	if err != nil {
		return Event{}, fmt.Errorf("%w: %v", ErrUndecodable, err)
	}
	var (
		e   Event
		due string
	)
	for _, m := range members {
		raw, fits := body[m.from:m.to], true
		switch string(m.name) {
		case "site_id":
			fits = text(raw, &e.SiteID)
		case "source_uri":
			fits = text(raw, &e.SourceURI)
		case "due":
			fits = text(raw, &due)
		case "sha256":
			fits = text(raw, &e.SHA256)
		case "metadata":
			fits = object(raw, &e.Metadata)
		}
		if !fits {
			return Event{}, fmt.Errorf("%w: %s has the wrong type: %s", ErrInvalid, m.name, kindOf(raw))
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
	members, err := scan(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrUndecodable, err)
	}
	fields := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		fields[string(m.name)] = bytes.Clone(body[m.from:m.to])
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
	if e.SHA256 != "" && (len(e.SHA256) != 64 || !IsKeyPrefix(e.SHA256)) {
		return fmt.Errorf("%w: sha256 must be 64 hex digits", ErrInvalid)
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

// ParseDue reads a deadline: an RFC 3339 time, or a date, which means its last second in UTC. A time that is outside of the years 0 to
// 9999 in UTC is the nearest one inside, as no other can be written.
func ParseDue(s string) (time.Time, error) {
	if len(s) == len(time.DateOnly) {
		if day, err := time.Parse(time.DateOnly, s); err == nil {
			return day.Add(24*time.Hour - time.Second), nil
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err == nil {
		_, err = t.MarshalText() // it refuses a zone of 24 hours, which Parse takes
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("due %.40q is neither an RFC 3339 time nor a date like 2026-12-01", s)
	}
	switch year := t.UTC().Year(); {
	case year < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), nil
	case year > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), nil
	}
	return t, nil
}
