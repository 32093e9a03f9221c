package extract

import (
	"strings"
	"time"

	"github.com/guyline/guyline/report"
)

// FactsVersion is the version of [Facts] that this package writes. Fields may be added under the same version;
// it changes when one changes its meaning or goes.
const FactsVersion = 1

// Facts is what a report's file says. Text fields are one line of at most 1,024 bytes, written by whoever
// made the file: proof of nothing.
type Facts struct {
	Version    int       `json:"version"`               // [FactsVersion]
	SiteID     string    `json:"site_id"`               // of the event
	Pages      int       `json:"pages"`                 // at least 1
	Bytes      int64     `json:"bytes"`                 // size of the file
	SHA256     string    `json:"sha256"`                // of the file, 64 lower-case hex digits
	PDFVersion string    `json:"pdf_version,omitempty"` // of the file's header, like "1.7"
	Title      string    `json:"title,omitempty"`
	Producer   string    `json:"producer,omitempty"` // the program that wrote the PDF
	Created    time.Time `json:"created,omitzero"`   // in UTC; a time that names no zone is taken as UTC
}

// document is the part of the facts that only the PDF engine can tell.
type document struct {
	pages    int
	version  string
	title    string
	producer string
	created  string // as written in the file
}

func newFacts(ev report.Event, f *file, sha256 string, d document) Facts {
	return Facts{
		Version:    FactsVersion,
		SiteID:     ev.SiteID,
		Pages:      d.pages,
		Bytes:      f.size,
		SHA256:     sha256,
		PDFVersion: d.version,
		Title:      report.Clean(d.title),
		Producer:   report.Clean(d.producer),
		Created:    parseDate(d.created),
	}
}

// parseDate reads a PDF date, D:YYYYMMDDHHmmSS+HH'mm', of which everything after the year may be missing. It
// returns the zero time for anything else.
func parseDate(s string) time.Time {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "D:"), "'", "")
	zone := strings.TrimLeft(s, "0123456789")
	layout, digits := "20060102150405", s[:len(s)-len(zone)]
	if len(digits) < 4 || len(digits) > len(layout) {
		return time.Time{}
	}
	layout = layout[:len(digits)]
	switch {
	case zone == "" || zone[0] == 'Z':
		zone = ""
	case len(zone) == 3: // hours only
		layout += "-07"
	default:
		layout += "-0700"
	}
	t, err := time.Parse(layout, digits+zone)
	if err != nil || t.UTC().Year() < 1 || t.UTC().Year() > 9999 { // what JSON can write
		return time.Time{}
	}
	return t.UTC()
}
