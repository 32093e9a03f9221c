package fate

import (
	"fmt"
	"strings"

	"github.com/guyline/guyline/report"
)

func (t *teller) dead() {
	l := t.Letter
	t.say("Not landed.")
	code := report.Line(string(l.Code), report.MaxHeaderValue)
	first := l.FirstFailedAt
	if first.IsZero() || !t.past.first.IsZero() && t.past.first.Before(first) {
		first = t.past.first
	}
	failures := max(t.past.failures, l.Attempts)
	switch {
	case l.Class == report.ClassAbandoned:
		t.say("Workers took it %s and vanished with it, as if it had killed them; it was given up at %s.", times(max(l.Attempts, 1)), t.at(l.FailedAt))
	case l.Code == report.CodeUndecodable || l.Code == report.CodeInvalidEvent:
		t.say("It was not tried, as the event cannot be read (%s): %s.", code, l.Reason)
	case l.Code == report.CodeUnknownSite:
		t.say("It was refused at %s, as the site registry does not know its site: %s.", t.at(l.FailedAt), l.Reason)
	case l.Class == report.ClassExhausted:
		t.say("It failed %s %s because %s. The last error: %s.", times(failures), t.between(first, l.FailedAt), cause(l.Code, l.Upstream),
			strings.TrimPrefix(l.Reason, fmt.Sprintf("exhausted %d attempts: ", l.Attempts)))
	case failures > 1:
		t.say("It failed %s %s, the last time for good, because %s: %s.", times(failures), t.between(first, l.FailedAt), cause(l.Code, l.Upstream), l.Reason)
	default:
		t.say("It failed for good at %s because %s: %s.", t.at(l.FailedAt), cause(l.Code, l.Upstream), l.Reason)
	}
	leaves := ""
	if t.Keeps > 0 {
		leaves = "; the queue drops it in " + t.lasting(l.FailedAt.Add(t.Keeps).Sub(t.now))
	}
	t.say("It has waited in the dead-letter queue for %s%s%s.", t.lasting(t.now.Sub(l.FailedAt)), t.due(l.Due), leaves)
	if l.Reopened > 0 && t.Entry != nil {
		t.say("%s had it reprocessed; its earlier result stays in the ledger until it lands.", t.Entry.Actor)
	}
	switch {
	case t.Quarantined:
		t.say("Replayed %s: it is quarantined, so that only a person replays it again, by its key.", times(l.Replays))
	case l.Replays > 0:
		t.say("Replayed %s.", times(l.Replays))
	}
	t.next = t.remedy()
}

// cause puts a code into words.
func cause(code report.Code, upstream string) string {
	source := report.Line(upstream, report.MaxHeaderValue)
	if source == "" || source == "file" {
		source = "the source"
	}
	switch code {
	case report.CodeConnection:
		return source + " refused or broke the connection"
	case report.CodeTimeout:
		return source + " did not answer in time"
	case report.CodeThrottled:
		return source + " asked to be left alone for a while"
	case report.CodeServerError:
		return source + " had an error of its own"
	case report.CodeNotFound, report.CodeGone:
		return source + " does not have it"
	case report.CodeForbidden, report.CodeUnauthorized:
		return source + " does not let the worker in"
	case report.CodeNoSuchHost:
		return "the name of " + source + " does not resolve"
	case report.CodeNotAPDF:
		return "the file is not a PDF"
	case report.CodeMalformedPDF, report.CodeNoPages, report.CodeShortRead:
		return "the file is damaged"
	case report.CodeEncrypted:
		return "the file is encrypted"
	case report.CodeSHA256Mismatch:
		return "the file is not the one that was announced"
	}
	return fmt.Sprintf("of %q", report.Line(string(code), report.MaxHeaderValue))
}

// remedy is the command that helps a dead report.
func (t *teller) remedy() string {
	key, l := report.Line(t.Key.Short(), 12), t.Letter
	replay := fmt.Sprintf("`guyline dlq replay %s`", key)
	if t.Quarantined {
		replay = fmt.Sprintf("`guyline dlq replay %s --force`", key)
	}
	switch l.Code {
	case report.CodeUndecodable, report.CodeInvalidEvent:
		return fmt.Sprintf("have it published again, well-formed; then `guyline dlq discard %s --reason R`", key)
	case report.CodeUnknownSite:
		return "`guyline sites import FILE` with the site in it; then " + replay
	case report.CodeNotFound, report.CodeGone:
		return fmt.Sprintf("if the file has moved, `guyline dlq repair %s --uri NEW --reason R`; once it is back, %s", key, replay)
	}
	switch {
	case l.Class == report.ClassAbandoned:
		return "find out in the workers' logs what it did to them; then " + replay
	case l.Class == report.ClassExhausted:
		return "once the source is well again, " + replay
	}
	return fmt.Sprintf("once the file is repaired, %s; to give it up, `guyline dlq discard %s --reason R`", replay, key)
}
