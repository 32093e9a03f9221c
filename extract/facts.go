package extract

import (
	"slices"
	"time"

	"github.com/guyline/guyline/extract/pdf"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/report"
)

// FactsVersion is the version of [Facts] that this package writes. Fields may be added under the same version;
// it changes when one changes its meaning or goes.
const FactsVersion = 1

// Facts is what a report's file says: JSON of less than 40 KiB, whatever the file. Text fields are one line of at most
// 1,024 bytes if nothing else is said, written by whoever made the file: proof of nothing.
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
	Encrypted  bool      `json:"encrypted"`          // although it opens without a password

	NeedsOCR      bool   `json:"needs_ocr"`                 // no page that was looked at has a text layer
	TextLengths   []int  `json:"text_lengths"`              // characters in the text layer of each page, with spaces, from the first page on
	TextPartial   bool   `json:"text_partial,omitempty"`    // text_lengths ends early: after 1,000 pages or some 3 seconds, or at a page that fails
	FirstPageText string `json:"first_page_text,omitempty"` // the first page's text, at most 2,048 bytes
}

func newFacts(ev report.Event, f *source.File, d pdf.Document) Facts {
	return Facts{
		Version:       FactsVersion,
		SiteID:        ev.SiteID,
		Pages:         d.Pages,
		Bytes:         f.Size,
		SHA256:        f.SHA256,
		PDFVersion:    d.Version,
		Title:         d.Title,
		Producer:      d.Producer,
		Created:       d.Created,
		Encrypted:     d.Encrypted,
		NeedsOCR:      !slices.ContainsFunc(d.TextLengths, func(n int) bool { return n > 0 }),
		TextLengths:   d.TextLengths,
		TextPartial:   d.TextPartial,
		FirstPageText: d.FirstPageText,
	}
}
