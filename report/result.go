package report

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxResult is the most that a result may have, in bytes: 64 KiB.
const MaxResult = 64 << 10

// Result is what the work on a report yields: one raw JSON object. Nil stands for {}.
type Result []byte

// NewResult marshals a struct or map into a result and checks it like [Result.Check].
func NewResult(v any) (Result, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, Poison(CodeInvalidResult, fmt.Errorf("marshal the result: %w", err))
	}
	r := Result(b)
	return r, r.Check()
}

// Check reports a result over [MaxResult] as poison [CodeResultTooLarge], and one that is not a JSON
// object, or is nested deeper than 9,990 levels, as poison [CodeInvalidResult].
func (r Result) Check() error {
	if len(r) > MaxResult {
		return Poison(CodeResultTooLarge, fmt.Errorf("the result has %d bytes, at most %d are allowed", len(r), MaxResult))
	}
	if r == nil {
		return nil
	}
	if ok, _ := valid(r); !ok || bytes.TrimLeft(r, " \t\r\n")[0] != '{' {
		return Poison(CodeInvalidResult, fmt.Errorf("the result is not a JSON object: %.40q", []byte(r)))
	}
	return nil
}

// AppendTo adds the object to b as json.Marshal writes it: without space between tokens, and with <, >, & and the line separators
// of Unicode escaped. A nil result is written as {}.
func (r Result) AppendTo(b []byte) ([]byte, error) {
	if ok, compact := valid(r); ok && compact && !escapable(r) {
		return append(b, r...), nil
	}
	written, err := json.Marshal(r)
	return append(b, written...), err
}

// escapable reports whether there may be a character that json.Marshal escapes in valid JSON; 0xE2 begins the line separators.
func escapable(text []byte) bool {
	for _, c := range []byte("<>&\xe2") {
		if bytes.IndexByte(text, c) >= 0 {
			return true
		}
	}
	return false
}

// MarshalJSON writes the object as it is.
func (r Result) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("{}"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps the object as it is.
func (r *Result) UnmarshalJSON(b []byte) error {
	*r = bytes.Clone(b)
	return nil
}
