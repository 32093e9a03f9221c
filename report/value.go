package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"
)

// maxDepth is how deep an event's JSON may be nested; the object itself is level 1.
const maxDepth = 64

// member is one name of an object and where its value lies in the text, without the space around it.
type member struct {
	name     []byte // without quotes and escapes
	from, to int
}

// scan finds the members of one JSON object, sorted by name, and refuses every text that two readers could
// understand differently: see [Decode]. encoding/json would accept most of these by guessing, and reads an event three times.
func scan(text []byte) ([]member, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	s := scanner{text: text, limit: maxDepth, strict: true, members: make([]member, 0, 8)}
	if s.space() != '{' && s.at < len(text) {
		return nil, errors.New("it is not a JSON object")
	}
	if err := s.value(1); err != nil {
		return nil, err
	}
	if s.space(); s.at < len(text) {
		return nil, errors.New("something follows the JSON object")
	}
	return s.members, nil
}

// resultDepth is how deep a result may be nested. encoding/json reads nothing that is deeper than 10,000 levels, and a result is read inside
// of a ledger entry, and that inside of an event of the audit trail.
const resultDepth = 9_990

// valid reports whether the text is one value as [encoding/json.Valid] does, if no deeper than resultDepth, and whether it is written
// without any space around its tokens. Names may repeat, and strings may have invalid UTF-8 and half surrogate pairs.
func valid(text []byte) (ok, compact bool) {
	s := scanner{text: text, limit: resultDepth}
	s.space()
	err := s.value(1)
	s.space()
	return err == nil && s.at == len(text), !s.spaced
}

// text reads a value that [scan] has accepted into a string; null leaves it as it is. It reports whether it is one of both.
func text(raw []byte, into *string) bool {
	if raw[0] == '"' {
		*into = string(unescaped(raw[1 : len(raw)-1]))
	}
	return raw[0] == '"' || raw[0] == 'n'
}

// unescaped is what a string means that [scan] has accepted and that is written like this between its quotes.
func unescaped(written []byte) []byte {
	if bytes.IndexByte(written, '\\') < 0 {
		return written
	}
	var s string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, written, []byte{'"'}), &s) // it is valid
	return []byte(s)
}

// object reads a value that [scan] has accepted into a map; null leaves it as it is. It reports whether it is one of both.
func object(raw []byte, into *map[string]any) bool {
	if raw[0] == '{' {
		s := scanner{text: raw}
		*into, _ = s.tree().(map[string]any)
	}
	return raw[0] == '{' || raw[0] == 'n'
}

// kindOf names the JSON kind of a value for a message.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

// tree is the value here as encoding/json reads it, with numbers as [json.Number]. It has been read before, so nothing can fail.
func (s *scanner) tree() any {
	from := s.at
	switch s.next() {
	case '{':
		object := map[string]any{}
		for s.at++; s.space() != '}'; s.comma() {
			name, _ := s.quoted()
			s.space()
			s.at++ // the colon
			s.space()
			object[string(unescaped(name))] = s.tree()
		}
		s.at++
		return object
	case '[':
		list := []any{}
		for s.at++; s.space() != ']'; s.comma() {
			list = append(list, s.tree())
		}
		s.at++
		return list
	case '"':
		text, _ := s.quoted()
		return string(unescaped(text))
	}
	_ = s.value(0)
	switch word := string(s.text[from:s.at]); word {
	case "true", "false":
		return word == "true"
	case "null":
		return nil
	default:
		return json.Number(word)
	}
}

// comma skips a comma, if there is one.
func (s *scanner) comma() {
	if s.space() == ',' {
		s.at++
	}
}

// AppendString adds a string to JSON text as json.Marshal writes it, and leaves to it what is not plain.
func AppendString(b []byte, s string) []byte {
	if !IsPlain(s) {
		written, _ := json.Marshal(s) // no string fails
		return append(b, written...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// IsPlain reports whether json.Marshal writes every character of s as it is: printable ASCII but for quotes, backslashes, <, > and &.
func IsPlain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
