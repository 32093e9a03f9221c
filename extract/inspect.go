package extract

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/guyline/guyline/report"
)

// inspect decides on an open file, from the cheapest look to the dearest.
func (x *Extractor) inspect(ctx context.Context, f *file, ev report.Event) (Facts, error) {
	if err := checkHeader(f); err != nil {
		return Facts{}, err
	}
	sum, err := digest(ctx, f)
	if err != nil {
		return Facts{}, err
	}
	if ev.SHA256 != "" && !strings.EqualFold(ev.SHA256, sum) {
		return Facts{}, orIncomplete(f, report.Poison(report.CodeSHA256Mismatch,
			fmt.Errorf("the file's SHA-256 is %s, but the event says %s; deliver the file that was published", sum, strings.ToLower(ev.SHA256))))
	}
	doc, err := x.engine.inspect(ctx, f, f.size)
	switch report.Classify(err).Code {
	case report.CodeMalformedPDF, report.CodeNoPages:
		err = orIncomplete(f, err)
	}
	if err != nil {
		return Facts{}, err
	}
	return newFacts(ev, f, sum, doc), nil
}

// checkHeader wants "%PDF-" near the beginning.
func checkHeader(f *file) error {
	head, err := f.head()
	if err != nil {
		return err
	}
	if bytes.Contains(head, []byte("%PDF-")) {
		return nil
	}
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	return report.Poison(report.CodeNotAPDF,
		fmt.Errorf(`no "%%PDF-" in the first %d bytes; it looks like %s and begins %.40q; deliver the PDF itself`, edgeSize, kind, head))
}

// orIncomplete turns a poisonous verdict into a transient one if the file has no "%%EOF" near its end: it may
// be an upload under way.
func orIncomplete(f *file, verdict error) error {
	tail, err := f.tail()
	if err != nil {
		return err
	}
	if bytes.Contains(tail, []byte("%%EOF")) {
		return verdict
	}
	return report.Transient(report.CodeStillUploading,
		fmt.Errorf(`maybe incomplete, as "%%%%EOF" is missing at its end: %s`, verdict))
}

// digest is the file's SHA-256 in hex.
func digest(ctx context.Context, f *file) (string, error) {
	h, r := sha256.New(), io.NewSectionReader(f, 0, f.size)
	for read := int64(0); read < f.size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := io.CopyN(h, r, min(1<<20, f.size-read))
		read += n
		switch {
		case err == io.EOF:
			return "", report.Transient(report.CodeShortRead, fmt.Errorf("only %d of the file's %d bytes could be read", read, f.size))
		case err != nil:
			return "", fileError(err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
