package pdf

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/guyline/guyline/report"
)

// conversation is what is said with one instance about one file. Any call may fail because the instance was killed.
type conversation struct {
	pdfium.Pdfium
	size int64
	file references.FPDF_DOCUMENT
	doc  Document
}

// describe learns everything but the text. Its error is the verdict on the file.
func (c *conversation) describe(source io.ReadSeeker) error {
	opened, err := c.OpenDocument(&requests.OpenDocument{FileReader: source, FileReaderSize: c.size})
	if err != nil {
		return err
	}
	c.file = opened.Document
	count, err := c.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: c.file})
	if err != nil {
		return err
	}
	c.doc.TextLengths = []int{}
	c.doc.Pages = int(int32(count.PageCount)) // the library widens PDFium's int without its sign
	if c.doc.Pages < 1 {
		return pdfiumerrors.ErrPage
	}
	page, err := c.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: c.file, Index: 0})
	if err != nil {
		return err
	}
	if _, err := c.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: page.Page}); err != nil {
		return err
	}
	if v, err := c.FPDF_GetFileVersion(&requests.FPDF_GetFileVersion{Document: c.file}); err == nil {
		c.doc.Version = fmt.Sprintf("%d.%d", v.FileVersion/10, v.FileVersion%10)
	}
	if s, err := c.FPDF_GetSecurityHandlerRevision(&requests.FPDF_GetSecurityHandlerRevision{Document: c.file}); err == nil {
		c.doc.Encrypted = s.SecurityHandlerRevision >= 0
	}
	tags := []string{"Title", "Producer", "CreationDate"}
	if meta, err := c.GetMetaData(&requests.GetMetaData{Document: c.file, Tags: &tags}); err == nil {
		c.doc.Title, c.doc.Producer = report.Clean(meta.Tags[0].Value), report.Clean(meta.Tags[1].Value)
		c.doc.Created = parseDate(meta.Tags[2].Value)
	}
	return nil
}

// readText collects the text layer's facts, page by page, and starts no page after the deadline.
func (c *conversation) readText(deadline time.Time) error {
	for i := range min(c.doc.Pages, maxTextPages) {
		if time.Now().After(deadline) {
			return nil
		}
		if err := c.readPage(i); err != nil {
			return err
		}
	}
	_, err := c.FPDF_CloseDocument(&requests.FPDF_CloseDocument{Document: c.file}) // the library drops its reference to the file
	return err
}

func (c *conversation) readPage(i int) error {
	page, err := c.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: c.file, Index: i})
	if err != nil {
		return err
	}
	text, err := c.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByReference: &page.Page}})
	if err != nil {
		return err
	}
	count, err := c.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text.TextPage})
	if err != nil {
		return err
	}
	if i == 0 && count.Count > 0 {
		// Some more than fit, as runs of space will collapse.
		first, err := c.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: text.TextPage, Count: min(count.Count, 2*maxFirstPageText)})
		if err != nil {
			return err
		}
		c.doc.FirstPageText = report.Line(strings.TrimRight(first.Text, "\x00"), maxFirstPageText)
	}
	c.doc.TextLengths = append(c.doc.TextLengths, count.Count)
	if _, err := c.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage}); err != nil {
		return err
	}
	_, err = c.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: page.Page})
	return err
}

// rejection is PDFium's error with a code.
func rejection(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n") // a trap brings its stack along
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return report.Poison(report.CodeEncrypted, errors.New("the file needs a password; store it without one"))
	case errors.Is(err, pdfiumerrors.ErrPage):
		return report.Poison(report.CodeNoPages, errors.New("the file has no page that can be loaded; repair or replace it"))
	case errors.Is(err, pdfiumerrors.ErrFormat), errors.Is(err, pdfiumerrors.ErrFile), errors.Is(err, pdfiumerrors.ErrUnknown):
		return report.Poison(report.CodeMalformedPDF, fmt.Errorf("unparseable structure (PDFium error %s); repair or replace the file", line))
	case line == "wasm error: unreachable": // how PDFium ends when it gets no more memory
		return report.Poison(report.CodeKilledMemory, fmt.Errorf("the PDF engine gave up, most likely for lack of memory: it has %d MiB; repair or replace the file", memoryPages/16))
	}
	return report.Poison(report.CodeCrashed, fmt.Errorf("the PDF engine crashed on the file: %s; repair or replace it", line))
}
