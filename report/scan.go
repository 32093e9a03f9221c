package report

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON text once, from left to right. Each of its methods begins where its subject begins and ends behind it.
type scanner struct {
	text    []byte
	limit   int  // of nesting
	strict  bool // refuses repeated names and half surrogate pairs
	at      int
	spaced  bool     // there was space around a token
	members []member // if strict: of the objects that are open, the outermost first
}

// space skips what may stand between tokens and returns the next byte, or 0 at the end of the text.
func (s *scanner) space() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.spaced = true
		default:
			return c
		}
	}
	return 0
}

// next is the byte here, or 0 at the end of the text.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// value reads a value of any kind; depth is the level it is on if it is an object or a list.
func (s *scanner) value(depth int) error {
	switch c := s.next(); c {
	case '{', '[':
		if depth > s.limit {
			return fmt.Errorf("it is nested deeper than %d levels", s.limit)
		}
		if c == '{' {
			return s.object(depth)
		}
		return s.list(depth)
	case '"':
		_, err := s.quoted()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) object(depth int) error {
	s.at++
	if s.space() == '}' {
		s.at++
		return nil
	}
	first := len(s.members)
	for {
		if s.space() != '"' {
			return s.unexpected()
		}
		name, err := s.quoted()
		if err != nil {
			return err
		}
		if s.space() != ':' {
			return s.unexpected()
		}
		s.at++
		s.space()
		from := s.at
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if s.strict {
			s.members = append(s.members, member{unescaped(name), from, s.at})
		}
		switch s.space() {
		case ',':
			s.at++
		case '}':
			s.at++
			err := repeated(s.members[first:])
			if depth > 1 {
				s.members = s.members[:first]
			}
			return err
		default:
			return s.unexpected()
		}
	}
}

// repeated sorts members by name and refuses two of the same name.
func repeated(members []member) error {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].name, members[i].name) {
			return fmt.Errorf("the name %.64q is repeated", members[i].name)
		}
	}
	return nil
}

func (s *scanner) list(depth int) error {
	s.at++
	if s.space() == ']' {
		s.at++
		return nil
	}
	for {
		s.space()
		if err := s.value(depth + 1); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.unexpected()
		}
	}
}

// quoted reads a string and returns what is between the quotes, as it is written.
func (s *scanner) quoted() ([]byte, error) {
	s.at++
	from := s.at
	for {
		s.at += plainText(s.text[s.at:])
		switch s.next() {
		case '"':
			s.at++
			return s.text[from : s.at-1], nil
		case '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		default:
			return nil, s.unexpected()
		}
	}
}

// plainText counts the bytes that stand for themselves in a string, up to the first that does not.
func plainText(text []byte) int {
	for i, c := range text {
		if c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return len(text)
}

// escape reads what begins with a backslash. Half a surrogate pair is not strict: encoding/json reads any as U+FFFD, so that
// different URIs would share one key.
func (s *scanner) escape() error {
	s.at++
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
	default:
		return s.unexpected()
	}
	high, err := s.hex4()
	if err != nil || !s.strict || !utf16.IsSurrogate(high) {
		return err
	}
	if bytes.HasPrefix(s.text[s.at:], []byte(`\u`)) {
		s.at++
		low, err := s.hex4()
		if err != nil {
			return err
		}
		if utf16.DecodeRune(high, low) != utf8.RuneError {
			return nil
		}
	}
	return errors.New("it has an unpaired surrogate escape")
}

// hex4 reads a u and four hex digits.
func (s *scanner) hex4() (r rune, err error) {
	s.at++
	for range 4 {
		switch c := s.next(); {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, s.unexpected()
		}
		s.at++
	}
	return r, nil
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		if s.next() != word[i] {
			return s.unexpected()
		}
		s.at++
	}
	return nil
}

func (s *scanner) number() error {
	if s.next() == '-' {
		s.at++
	}
	if s.next() == '0' { // nothing but a fraction or an exponent may follow
		s.at++
	} else if !s.digits() {
		return s.unexpected()
	}
	if s.next() == '.' {
		s.at++
		if !s.digits() {
			return s.unexpected()
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		s.at++
		if c := s.next(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.unexpected()
		}
	}
	return nil
}

// digits skips digits and reports whether there are any.
func (s *scanner) digits() bool {
	from := s.at
	for c := s.next(); c >= '0' && c <= '9'; c = s.next() {
		s.at++
	}
	return s.at > from
}

// unexpected says that no JSON goes on with what is here.
func (s *scanner) unexpected() error {
	if s.at >= len(s.text) {
		return errors.New("it is not JSON: it is empty or cut off")
	}
	r, _ := utf8.DecodeRune(s.text[s.at:])
	return fmt.Errorf("it is not JSON: invalid character %q", r)
}
