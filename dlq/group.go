package dlq

import (
	"cmp"
	"context"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/guyline/guyline/report"
)

// maxGroups bounds how many causes [Queue.Group] keeps apart.
const maxGroups = 10_000

// Group is the letters that died of one cause.
type Group struct {
	Class    report.Class `json:"class"`
	Code     report.Code  `json:"code"`
	Upstream string       `json:"upstream,omitempty"`
	Reason   string       `json:"reason"` // see Pattern
	Count    int          `json:"count"`
	First    time.Time    `json:"first,omitzero"`    // the earliest death
	Last     time.Time    `json:"last,omitzero"`     // the latest
	NextDue  time.Time    `json:"next_due,omitzero"` // the earliest deadline
	Sample   report.Key   `json:"sample"`            // of the letter that died last
}

// Groups is the selected letters by cause.
type Groups struct {
	Causes []Group // most letters first
	Others int     // letters of further causes, once there are 10,000
	Total  int
}

// Group counts the selected letters by class, code, upstream and the reason without what differs from report to report. It reads headers only.
func (q *Queue) Group(ctx context.Context, f Filter) (Groups, error) {
	return group(q.List(ctx, f), maxGroups)
}

func group(letters iter.Seq2[Letter, error], most int) (Groups, error) {
	type cause struct {
		class    report.Class
		code     report.Code
		upstream string
		pattern  string
	}
	var out Groups
	groups := map[cause]*Group{}
	for l, err := range letters {
		if err != nil {
			return out, err
		}
		out.Total++
		c := cause{l.Class, l.Code, l.Upstream, pattern(l.Reason)}
		g := groups[c]
		if g == nil {
			if len(groups) == most {
				out.Others++
				continue
			}
			g = &Group{Class: l.Class, Code: l.Code, Upstream: l.Upstream, Reason: c.pattern}
			groups[c] = g
		}
		g.add(l)
	}
	for _, g := range groups {
		out.Causes = append(out.Causes, *g)
	}
	slices.SortFunc(out.Causes, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.First.Compare(b.First), cmp.Compare(a.Sample, b.Sample))
	})
	return out, nil
}

func (g *Group) add(l Letter) {
	if g.Count++; g.Count == 1 || l.FailedAt.Before(g.First) {
		g.First = l.FailedAt
	}
	if g.Count == 1 || !l.FailedAt.Before(g.Last) {
		g.Last, g.Sample = l.FailedAt, l.Key
	}
	if !l.Due.IsZero() && (g.NextDue.IsZero() || l.Due.Before(g.NextDue)) {
		g.NextDue = l.Due
	}
}

// maxPattern is how much of a reason tells its cause, in bytes.
const maxPattern = 300

var (
	exhausted = regexp.MustCompile(`^exhausted \d+ attempts: `)
	telling   = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+(?:[.:,]\d+)*`)
)

// pattern is a reason without what differs from report to report: URIs, paths, hex strings such as keys, and numbers become
// <uri>, <path>, <hex> and <n>. How many attempts were exhausted is left away. Only the first 300 bytes count.
func pattern(reason string) string {
	reason = report.Line(reason, maxPattern)
	words := strings.Split(exhausted.ReplaceAllString(reason, ""), " ")
	for i, w := range words {
		core := strings.Trim(w, `"'(),;:[]{}<>`)
		switch at := strings.Index(w, core); {
		case core == "":
		case strings.Contains(core, "://"):
			words[i] = w[:at] + "<uri>" + w[at+len(core):]
		case file(core):
			words[i] = w[:at] + "<path>" + w[at+len(core):]
		case strings.ContainsAny(core, "0123456789") || len(core) >= 8:
			words[i] = telling.ReplaceAllStringFunc(w, placeholder)
		}
	}
	return strings.Join(words, " ")
}

// file reports whether a word names a file. HTTP/1.1 and application/pdf have a slash and do not.
func file(word string) bool {
	return len(word) > 1 && strings.ContainsAny(word, `/\`) && !protocol.MatchString(word) || strings.HasSuffix(strings.ToLower(word), ".pdf")
}

var protocol = regexp.MustCompile(`^(?i:http/[0-9.]+|(?:application|text|image)/[a-z0-9.+-]+)$`)

func placeholder(found string) string {
	if strings.Trim(found, "0123456789.:,") == "" {
		return "<n>"
	}
	return "<hex>"
}
