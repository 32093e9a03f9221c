package keyvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/guyline/guyline/report"
)

// encode is the entry as it is stored, byte for byte what json.Marshal makes of it, in a third of the time.
func (e Entry) encode() (b []byte, err error) {
	b = make([]byte, 0, 320+len(e.SiteID)+len(e.SourceURI)+len(e.Result)+len(e.Reason))
	b = report.AppendString(append(b, `{"state":`...), string(e.State))
	b = report.AppendString(append(b, `,"site_id":`...), e.SiteID)
	b = report.AppendString(append(b, `,"source_uri":`...), e.SourceURI)
	if len(e.Result) > 0 {
		if b, err = e.Result.AppendTo(append(b, `,"result":`...)); err != nil {
			return nil, err
		}
	}
	b = strconv.AppendInt(append(b, `,"attempts":`...), int64(e.Attempts), 10)
	b = report.AppendString(append(b, `,"worker":`...), e.Worker)
	b = report.AppendString(append(b, `,"commit":`...), e.Commit)
	if b, err = appendTime(append(b, `,"time":`...), e.Time); err != nil {
		return nil, err
	}
	if e.Replaces != 0 {
		b = strconv.AppendUint(append(b, `,"replaces":`...), e.Replaces, 10)
	}
	if e.Actor != "" {
		b = report.AppendString(append(b, `,"actor":`...), e.Actor)
	}
	if e.Reason != "" {
		b = report.AppendString(append(b, `,"reason":`...), e.Reason)
	}
	if !e.ReopenedAt.IsZero() {
		if b, err = appendTime(append(b, `,"reopened_at":`...), e.ReopenedAt); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendTime adds a time as json.Marshal writes it. It fails where RFC 3339 has no such time.
func appendTime(b []byte, t time.Time) ([]byte, error) {
	b, err := t.AppendText(append(b, '"'))
	return append(b, '"'), err
}

// readEntry reads what is stored under a key at a revision.
func readEntry(value []byte, revision uint64) (Entry, error) {
	if len(value) == 0 { // the marker of a deletion, which is not ours to make: there is no entry, at this revision
		return Entry{Revision: revision}, nil
	}
	e, ok := readOwn(value)
	if !ok {
		e = Entry{}
		if err := json.Unmarshal(value, &e); err != nil {
			return Entry{}, fmt.Errorf("%w: revision %d: %w", ErrUnreadable, revision, err)
		}
	}
	e.Revision, e.Raw = revision, value
	return e, nil
}

// readOwn reads an entry of plain ASCII that is written as encode writes it, which nearly every one is, as json.Unmarshal would. It
// reports whether it is one.
func readOwn(value []byte) (e Entry, ok bool) {
	r := ownReader{rest: value}
	r.text(`{"state":`, (*string)(&e.State))
	r.text(`,"site_id":`, &e.SiteID)
	r.text(`,"source_uri":`, &e.SourceURI)
	if r.sees(`,"result":`) {
		r.result(`,"result":`, `,"attempts":`, &e.Result)
	}
	var attempts uint64
	r.number(`,"attempts":`, &attempts)
	e.Attempts = int(attempts)
	r.text(`,"worker":`, &e.Worker)
	r.text(`,"commit":`, &e.Commit)
	r.time(`,"time":`, &e.Time)
	if r.sees(`,"replaces":`) {
		r.number(`,"replaces":`, &e.Replaces)
	}
	if r.sees(`,"actor":`) {
		r.text(`,"actor":`, &e.Actor)
	}
	if r.sees(`,"reason":`) {
		r.text(`,"reason":`, &e.Reason)
	}
	if r.sees(`,"reopened_at":`) {
		r.time(`,"reopened_at":`, &e.ReopenedAt)
	}
	return e, !r.failed && string(r.rest) == "}"
}

// ownReader takes an entry apart from its beginning. After the first thing that is not as encode writes it, it has failed.
type ownReader struct {
	rest   []byte
	failed bool
}

func (r *ownReader) sees(name string) bool { return bytes.HasPrefix(r.rest, []byte(name)) }

// take removes the name and the n bytes behind it, and returns those.
func (r *ownReader) take(name string, n int) []byte {
	if r.failed = r.failed || n < 0 || len(r.rest) < len(name)+n || !r.sees(name); r.failed {
		return nil
	}
	value := r.rest[len(name):][:n]
	r.rest = r.rest[len(name)+n:]
	return value
}

func (r *ownReader) plain(name string) []byte {
	r.take(name+`"`, 0)
	text := r.take("", bytes.IndexByte(r.rest, '"'))
	r.take(`"`, 0)
	r.failed = r.failed || !report.IsPlain(text)
	return text
}

func (r *ownReader) text(name string, into *string) { *into = string(r.plain(name)) }

func (r *ownReader) time(name string, into *time.Time) {
	r.failed = into.UnmarshalText(r.plain(name)) != nil || r.failed
}

func (r *ownReader) number(name string, into *uint64) {
	r.take(name, 0)
	digits := r.take("", max(0, bytes.IndexAny(r.rest, ",}")))
	n, err := strconv.ParseUint(string(digits), 10, 63)
	r.failed = r.failed || err != nil || strconv.FormatUint(n, 10) != string(digits)
	*into = n
}

// result reads up to the next name. If that is inside of the result, what is before it is no JSON.
func (r *ownReader) result(name, next string, into *report.Result) {
	r.take(name, 0)
	object := r.take("", bytes.Index(r.rest, []byte(next)))
	r.failed = r.failed || !bytes.HasPrefix(object, []byte("{")) || !bytes.HasSuffix(object, []byte("}")) || report.Result(object).Check() != nil
	*into = bytes.Clone(object)
}
