package pdf

import (
	"strings"
	"time"
)

const (
	maxTextPages     = 1000
	maxFirstPageText = 2048 // bytes
)

// Document is what a PDF says. Its strings are one line each, of at most 1,024 bytes where nothing else is said, written by
// whoever made the file. Its JSON has less than 40 KiB.
type Document struct {
	Pages     int       `json:"pages"`                 // at least 1
	Version   string    `json:"pdf_version,omitempty"` // of the file's header, like "1.7"
	Title     string    `json:"title,omitempty"`
	Producer  string    `json:"producer,omitempty"` // the program that wrote the PDF
	Created   time.Time `json:"created,omitzero"`   // in UTC; a time that names no zone is taken as UTC
	Encrypted bool      `json:"encrypted"`          // although it opens without a password

	// TextLengths has the number of characters, with spaces, in the text layer of each page, from the first page on. It
	// ends early, and TextPartial is set, after 1,000 pages, when the time for text is over, or at a page that fails.
	TextLengths   []int  `json:"text_lengths"`
	TextPartial   bool   `json:"text_partial,omitempty"`
	FirstPageText string `json:"first_page_text,omitempty"` // the first page's text, at most 2,048 bytes
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
