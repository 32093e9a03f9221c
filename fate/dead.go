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
	case t.unread():
		t.say("It was not tried, as the event cannot be read (%s): %s.", code, l.Reason)
	case l.Code == report.CodeUnknownSite:
		t.say("It was refused at %s, as the site registry does not know its site: %s.", t.at(l.FailedAt), l.Reason)
	case l.Class == report.ClassExhausted:
		t.say("It failed %s %s because %s. The last error: %s.", times(failures), t.between(first, l.FailedAt), diagnose(l.Code, l.Upstream).cause,
			strings.TrimPrefix(l.Reason, fmt.Sprintf("exhausted %d attempts: ", l.Attempts)))
	case failures > 1:
		t.say("It failed %s %s, the last time for good, because %s: %s.", times(failures), t.between(first, l.FailedAt), diagnose(l.Code, l.Upstream).cause, l.Reason)
	default:
		t.say("It failed for good at %s because %s: %s.", t.at(l.FailedAt), diagnose(l.Code, l.Upstream).cause, l.Reason)
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

// remedy is what helps a dead report.
func (t *teller) remedy() string {
	key, l := report.Line(t.Key.Short(), 12), t.Letter
	replay := fmt.Sprintf("`guyline dlq replay %s`", key)
	if t.Quarantined {
		replay = fmt.Sprintf("`guyline dlq replay %s --force`", key)
	}
	switch {
	case t.unread():
		return fmt.Sprintf("have it published again, well-formed; then `guyline dlq discard %s --reason R`", key)
	case l.Code == report.CodeUnknownSite:
		return "`guyline sites import FILE` with the site in it; then " + replay
	case l.Class == report.ClassAbandoned:
		return "find out in the workers' logs what it did to them; then " + replay
	}
	helps := diagnose(l.Code, l.Upstream).help.say(key, replay)
	if l.Class == report.ClassExhausted {
		return helps
	}
	return fmt.Sprintf("%s; to give it up, `guyline dlq discard %s --reason R`", helps, key)
}

// unread reports whether the event was refused before anything was tried.
func (t *teller) unread() bool {
	l := t.Letter
	return l.Code == report.CodeUndecodable || l.Code == report.CodeInvalidEvent && l.Attempts == 0
}
