package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/guyline/guyline/extract/pdf"
	"github.com/guyline/guyline/report"
)

// maxAnswer bounds an answer's line, in bytes.
const maxAnswer = 64 << 10

// request is what the pool sends with an open file.
type request struct {
	ID    int           `json:"id"`             // 1, 2, ... for each process
	Size  int64         `json:"size"`           // of the file, in bytes
	Limit time.Duration `json:"limit"`          // for the inspection, in nanoseconds
	Path  string        `json:"path,omitempty"` // where an open file cannot be passed
}

func (r request) line() []byte {
	b, _ := json.Marshal(r) // numbers and strings only
	return append(b, '\n')
}

// answer is what the process says to a request, or with ID 0 when it is ready. A request's answer has either a document or an
// error.
type answer struct {
	ID       int           `json:"id"`
	Document *pdf.Document `json:"document,omitempty"`
	Error    *refusal      `json:"error,omitempty"`
}

// refusal is an error of package report on the wire.
type refusal struct {
	Code      report.Code `json:"code"`
	Transient bool        `json:"transient,omitempty"` // else poison
	Reason    string      `json:"reason"`
}

func newRefusal(err error) *refusal {
	e := report.Classify(err)
	return &refusal{e.Code, e.Kind != report.KindPoison, report.Clean(err.Error())}
}

func (r *refusal) err() error {
	err := errors.New(report.Clean(r.Reason))
	if r.Transient {
		return report.Transient(r.Code, err)
	}
	return report.Poison(r.Code, err)
}

// readAnswer reads one line of at most the reader's size and checks that it answers the request.
func readAnswer(r *bufio.Reader, id int) (answer, error) {
	var a answer
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return a, fmt.Errorf("%w: it has more than %d bytes", errBadAnswer, r.Size())
	case err != nil:
		return a, err
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("%w: %w", errBadAnswer, err)
	}
	switch {
	case a.ID != id || r.Buffered() > 0:
		return a, fmt.Errorf("%w: it answers what was not asked", errBadAnswer)
	case id > 0 && (a.Document == nil) == (a.Error == nil), a.Document != nil && a.Document.Pages < 1:
		return a, fmt.Errorf("%w: it says neither yes nor no", errBadAnswer)
	}
	return a, nil
}

var errBadAnswer = errors.New("the extraction process gave an answer that cannot be used")
