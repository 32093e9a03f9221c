package report

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// Row is one report of a list.
type Row struct {
	Line  int    // where it begins in the file, from 1
	Event Event  // zero if Err is set
	Body  []byte // the event's JSON: the very line of a JSON-lines file, made from the columns of a CSV
	Err   error  // what is wrong with this row; the following ones can still be read
}

// ReadList yields the reports of a list: JSON lines if the first character that is no blank is a brace, else CSV with a header that
// names at least site_id and source_uri; due and sha256 are optional and all other columns go to metadata. Empty
// lines and a byte-order mark are skipped.
//
// A fault in one row is in its Err. An error yielded beside an empty Row ends the list: the file cannot
// be read, its header is not one, or a row of a CSV has no end (see [Table]).
func ReadList(r io.Reader) iter.Seq2[Row, error] {
	in := bufio.NewReaderSize(r, 64<<10)
	switch lines, err := Begins(in); {
	case err != nil:
		return func(yield func(Row, error) bool) { yield(Row{}, err) }
	case lines:
		return jsonRows(in)
	}
	return csvRows(in)
}

// Begins tells by its beginning whether a list is JSON lines; else it is a CSV, or the error says what it is. It skips a byte-order mark.
func Begins(in *bufio.Reader) (jsonLines bool, err error) {
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte("\ufeff")) {
		in.Discard(3)
	}
	begin, err := in.Peek(512)
	if len(begin) == 0 && err != nil && err != io.EOF {
		return false, err
	}
	switch text := bytes.TrimLeft(begin, " \t\r\n"); {
	case bytes.HasPrefix(text, []byte("[")):
		return false, errors.New("it is a JSON array; a list has one object on each line, without brackets around and commas between them (`jq -c '.[]'` makes that of it)")
	case bytes.HasPrefix(begin, []byte("\xff\xfe")), bytes.HasPrefix(begin, []byte("\xfe\xff")):
		return false, errors.New("it is UTF-16; save it as UTF-8")
	default:
		return bytes.HasPrefix(text, []byte("{")), nil
	}
}

func jsonRows(in *bufio.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for line := 1; ; line++ {
			body, tooLong, err := readLine(in)
			if err != nil && err != io.EOF {
				yield(Row{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			if body = bytes.TrimSpace(body); len(body) > 0 {
				row := Row{Line: line, Body: body}
				if tooLong {
					row.Err = fmt.Errorf("line %d: longer than %d bytes", line, MaxMessage)
				} else if e, err := Decode(body); err != nil {
					row.Err = fmt.Errorf("line %d: %w", line, err)
				} else {
					row.Event = e
				}
				if !yield(row, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// readLine reads one line of at most MaxMessage bytes; of a longer one it keeps the beginning.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if room := MaxMessage + 1 - len(line); len(part) > room {
			part, tooLong = part[:room], true
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

func csvRows(in io.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		t := NewTable(in)
		header, _, err := t.Read()
		if err == io.EOF {
			yield(Row{}, errors.New("the list is empty"))
			return
		}
		var c *columns
		if err == nil {
			c, err = newColumns(header)
		}
		if err != nil {
			yield(Row{}, fmt.Errorf("line 1 is not a CSV header: %w", err))
			return
		}
		for {
			fields, line, err := t.Read()
			if err == io.EOF {
				return
			}
			row := Row{Line: line}
			parse, isParse := errors.AsType[*csv.ParseError](err)
			switch {
			case errors.Is(err, csv.ErrFieldCount):
				row.Err = fmt.Errorf("line %d: %d fields, but the header has %d", line, len(fields), len(header))
			case isParse:
				row.Err = fmt.Errorf("line %d: %w", line, parse.Err)
			case err != nil:
				yield(Row{}, err)
				return
			default:
				row = c.row(line, fields)
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

func checkHeader(header []string) error {
	for _, need := range []string{"site_id", "source_uri"} {
		if !slices.Contains(header, need) {
			return fmt.Errorf("it has no column %s (it reads %.80q; columns are separated by commas)", need, RedactURI(strings.Join(header, ",")))
		}
	}
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return fmt.Errorf("the column %.40q is repeated", RedactURI(name))
		}
	}
	return nil
}
