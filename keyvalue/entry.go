package keyvalue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// encode is the entry as it is stored, byte for byte what json.Marshal makes of it. Every settled report is encoded once, and this
// takes a quarter of the time.
func (e Entry) encode() (b []byte, err error) {
	b = make([]byte, 0, 320+len(e.SiteID)+len(e.SourceURI)+len(e.Result)+len(e.Reason))
	b = appendText(append(b, `{"state":`...), string(e.State))
	b = appendText(append(b, `,"site_id":`...), e.SiteID)
	b = appendText(append(b, `,"source_uri":`...), e.SourceURI)
	if len(e.Result) > 0 {
		if b, err = e.Result.AppendTo(append(b, `,"result":`...)); err != nil {
			return nil, err
		}
	}
	b = strconv.AppendInt(append(b, `,"attempts":`...), int64(e.Attempts), 10)
	b = appendText(append(b, `,"worker":`...), e.Worker)
	b = appendText(append(b, `,"commit":`...), e.Commit)
	if b, err = appendTime(append(b, `,"time":`...), e.Time); err != nil {
		return nil, err
	}
	if e.Replaces != 0 {
		b = strconv.AppendUint(append(b, `,"replaces":`...), e.Replaces, 10)
	}
	if e.Actor != "" {
		b = appendText(append(b, `,"actor":`...), e.Actor)
	}
	if e.Reason != "" {
		b = appendText(append(b, `,"reason":`...), e.Reason)
	}
	if !e.ReopenedAt.IsZero() {
		if b, err = appendTime(append(b, `,"reopened_at":`...), e.ReopenedAt); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendText adds a string as json.Marshal writes it, and leaves to it what is not plain ASCII.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			written, _ := json.Marshal(s) // no string fails
			return append(b, written...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendTime adds a time as json.Marshal writes it. It fails where RFC 3339 has no such time.
func appendTime(b []byte, t time.Time) ([]byte, error) {
	b, err := t.AppendText(append(b, '"'))
	return append(b, '"'), err
}

func readEntry(value []byte, revision uint64) (Entry, error) {
	var e Entry
	if len(value) == 0 { // the marker of a deletion, which is not ours to make: there is no entry, at this revision
		return Entry{Revision: revision}, nil
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return Entry{}, fmt.Errorf("%w: revision %d: %w", ErrUnreadable, revision, err)
	}
	e.Revision, e.Raw = revision, value
	return e, nil
}
