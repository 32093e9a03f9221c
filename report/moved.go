package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Moved is the event of a body with another source_uri, and the body that says so: all other bytes stay as they are. Its error is
// [ErrUndecodable] or [ErrInvalid].
func Moved(body []byte, uri string) (Event, []byte, error) {
	if _, err := Decode(body); err != nil {
		return Event{}, nil, err
	}
	from, to := valueOf(body, "source_uri")
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(uri); err != nil {
		return Event{}, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	moved := bytes.Join([][]byte{body[:from], bytes.TrimSpace(quoted.Bytes()), body[to:]}, nil)
	event, err := Decode(moved)
	if err == nil && event.SourceURI != uri { // it is not UTF-8, and would be stored as something else
		err = fmt.Errorf("%w: source_uri is not UTF-8", ErrInvalid)
	}
	return event, moved, err
}

// valueOf finds where the value of a name lies in a body that [Decode] accepts; the name is there, once, outside of inner objects.
func valueOf(body []byte, name string) (from, to int) {
	members, _ := scan(body)
	i := slices.IndexFunc(members, func(m member) bool { return string(m.name) == name })
	return members[i].from, members[i].to
}
