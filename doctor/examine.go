package doctor

import "fmt"

// Level is how much a finding matters.
type Level string

// The levels.
const (
	Trouble Level = "trouble" // a person is needed
	Note    Level = "note"    // good to know
)

// Finding is one thing that was found.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"`   // what was looked at, the same word for the same trap
	Where   string `json:"where"`   // a stream, a consumer of a queue as REPORTS/workers, a server
	What    string `json:"what"`    // is wrong
	Follows string `json:"follows"` // from it
	Do      string `json:"do"`      // about it
	Setup   bool   `json:"setup"`   // `guyline setup` repairs it
}

// String is the finding in one line.
func (f Finding) String() string {
	s := f.Where + ": " + f.What
	if f.Follows != "" {
		s += ": " + f.Follows
	}
	if f.Do != "" {
		s += "; " + f.Do
	}
	return s
}

// repaired is a trouble that setup repairs.
func repaired(check, where, what, follows string) Finding {
	return Finding{Trouble, check, where, what, follows, "`guyline setup` repairs it", true}
}

// person is a trouble for a person.
func person(check, where, what, follows, do string) Finding {
	return Finding{Trouble, check, where, what, follows, do, false}
}

// byHand is a setting that setup leaves, or cannot change.
func byHand(check, where, what, follows, do string) Finding {
	return Finding{Trouble, check, where, what, follows, "by hand: " + do, false}
}

func note(check, where, what, follows, do string) Finding {
	return Finding{Note, check, where, what, follows, do, false}
}

// Examine makes findings of facts, the troubles first.
func Examine(f Facts) (findings []Finding) {
	var notes []Finding
	add := func(found []Finding) {
		for _, x := range found {
			if x.Level == Trouble {
				findings = append(findings, x)
			} else {
				notes = append(notes, x)
			}
		}
	}
	for _, check := range serverChecks {
		add(check(f))
	}
	add(Settings(f))
	for _, s := range f.Streams {
		for _, check := range stateChecks {
			if s.Have != nil {
				add(check(s))
			}
		}
	}
	return append(findings, notes...)
}

// Settings makes the findings about the settings of streams and consumers alone.
func Settings(f Facts) (findings []Finding) {
	for _, s := range f.Streams {
		findings = append(findings, streamFindings(s)...)
	}
	return findings
}

// streamFindings examines the settings of one stream and, if it is a queue, its consumer.
func streamFindings(s Stream) (findings []Finding) {
	if s.Have == nil {
		return missingStream(s)
	}
	for _, check := range streamChecks {
		findings = append(findings, check(s)...)
	}
	if s.Consumer == nil {
		return findings
	}
	if s.Consumer.Have == nil {
		return append(findings, missingConsumer(s)...)
	}
	for _, check := range consumerChecks {
		findings = append(findings, check(s, *s.Consumer)...)
	}
	return append(findings, otherConsumers(s)...)
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, many)
}
