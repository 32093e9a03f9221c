package extract

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/guyline/guyline/extract/pdf"
	"github.com/guyline/guyline/extract/source"
	"github.com/guyline/guyline/report"
)

// inspect decides on a fetched file, from the cheapest look to the dearest.
func (x *Extractor) inspect(ctx context.Context, f *source.File, ev report.Event) (report.Result, error) {
	head, tail, err := edges(f)
	if err != nil {
		return nil, err
	}
	isPDF, whole := bytes.Contains(head, []byte("%PDF-")), bytes.Contains(tail, []byte("%%EOF"))
	if !isPDF && x.command == nil {
		return nil, notAPDF(f, head)
	}
	if ev.SHA256 != "" && !strings.EqualFold(ev.SHA256, f.SHA256) {
		return nil, orIncomplete(isPDF && !whole, report.Poison(report.CodeSHA256Mismatch,
			fmt.Errorf("the file's SHA-256 is %s, but the event says %s; deliver the file that was published", f.SHA256, strings.ToLower(ev.SHA256))))
	}
	if x.command != nil {
		return inTurn(ctx, x.turns, func() (report.Result, error) { return x.command.Inspect(ctx, ev, f.File) })
	}
	doc, err := inTurn(ctx, x.turns, func() (pdf.Document, error) { return x.pool.Inspect(ctx, f.File, f.Size) })
	switch report.Classify(err).Code {
	case report.CodeMalformedPDF, report.CodeNoPages:
		err = orIncomplete(!whole, err)
	}
	if err != nil {
		return nil, err
	}
	return report.NewResult(newFacts(ev, f, doc))
}

// edgeSize is how much of a file's beginning and end is searched for its marks, in bytes.
const edgeSize = 1024

func edges(f *source.File) (head, tail []byte, err error) {
	head, tail = make([]byte, min(edgeSize, f.Size)), make([]byte, min(edgeSize, f.Size))
	_, err = f.ReadAt(head, 0)
	if err == nil {
		_, err = f.ReadAt(tail, f.Size-int64(len(tail)))
	}
	if err != nil && err != io.EOF {
		return nil, nil, report.Transient(report.CodeConnection, fmt.Errorf("the storage failed while the file was read: %w", err))
	}
	return head, tail, nil
}

// notAPDF says what came instead.
func notAPDF(f *source.File, head []byte) error {
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	return report.Poison(report.CodeNotAPDF,
		fmt.Errorf(`no "%%PDF-" in the first %d bytes; what came is %s, looks like %s and begins %.40q; deliver the PDF itself`,
			edgeSize, cmp.Or(f.Came, "a file"), kind, head))
}

// orIncomplete turns a poisonous verdict into a transient one if the file may be an upload under way.
func orIncomplete(incomplete bool, verdict error) error {
	if !incomplete {
		return verdict
	}
	return report.Transient(report.CodeStillUploading,
		fmt.Errorf(`maybe incomplete, as "%%%%EOF" is missing at its end: %s`, verdict))
}
