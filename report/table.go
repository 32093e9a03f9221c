package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Table reads a CSV of one record a line. A record that goes on over a line end is refused, as one stray quote
// would otherwise swallow the rows after it, and so is one of more than [MaxMessage] bytes.
type Table struct {
	csv  *csv.Reader
	in   *bounded
	line int // where the last record ended
}

// NewTable returns a reader of the records in r, the header included.
func NewTable(r io.Reader) *Table {
	in := &bounded{r: r, left: MaxMessage}
	return &Table{csv: csv.NewReader(in), in: in}
}

// Read returns the next record and its line, from 1, or io.EOF. After an error that is a [csv.ParseError] the following
// records can still be read; it is about that line alone. Any other error ends the table.
func (t *Table) Read() (fields []string, line int, err error) {
	fields, err = t.csv.Read()
	t.in.left = MaxMessage
	parse, isParse := errors.AsType[*csv.ParseError](err)
	switch {
	case errors.Is(err, errNoEnd):
		return nil, t.line + 1, fmt.Errorf("line %d: %w", t.line+1, err)
	case err != nil && !isParse:
		return nil, t.line + 1, err
	case isParse:
		line, t.line = parse.StartLine, parse.Line
	default:
		line, _ = t.csv.FieldPos(0)
		t.line = line
	}
	for _, f := range fields {
		t.line += strings.Count(f, "\n")
	}
	if t.line > line {
		return nil, line, fmt.Errorf("lines %d to %d are one record: is a quote missing?", line, t.line)
	}
	return fields, line, err
}

var errNoEnd = fmt.Errorf("no end of the row within %d bytes", MaxMessage)

// bounded fails when its reader wants more than what is left.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errNoEnd
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}
