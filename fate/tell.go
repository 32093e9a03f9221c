package fate

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// teller puts a story into sentences.
type teller struct {
	facts
	past past
	now  time.Time
	said []string
	next string
}

// say adds a sentence. What strangers wrote is cleaned, and the full stop is the sentence's.
func (t *teller) say(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = strings.TrimRight(report.Line(s, report.MaxReason), ".")
		}
	}
	t.said = append(t.said, fmt.Sprintf(format, args...))
}

// at writes a time in UTC, with its date unless that is today's.
func (t *teller) at(when time.Time) string { return t.clock(when) + " UTC" }

func (t *teller) clock(when time.Time) string {
	when = when.UTC()
	if when.Format(time.DateOnly) == t.now.UTC().Format(time.DateOnly) {
		return when.Format("15:04")
	}
	return when.Format("2006-01-02 15:04")
}

// between writes a span of time, or a moment if it is within one minute.
func (t *teller) between(from, to time.Time) string {
	if from.IsZero() || t.clock(from) == t.clock(to) {
		return "at " + t.at(to)
	}
	return "between " + t.clock(from) + " and " + t.at(to)
}

// ago writes how far away a time is, to either side: "6 hours ago", "1 day from now".
func (t *teller) ago(when time.Time) string {
	return humanize.RelTime(when, t.now, "ago", "from now")
}

// lasting writes how long something took: "6 hours".
func (t *teller) lasting(d time.Duration) string {
	if d < time.Second {
		return "a moment"
	}
	return strings.TrimSpace(humanize.RelTime(t.now.Add(-d), t.now, "", ""))
}

// due says when the report is due, as the end of a sentence.
func (t *teller) due(due time.Time) string {
	switch {
	case due.IsZero():
		return ""
	case due.After(t.now):
		return "; due in " + t.lasting(due.Sub(t.now))
	}
	return "; overdue for " + t.lasting(t.now.Sub(due))
}

// times writes a number of times: once, twice, 3 times.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// before says what went wrong before; failures are at least so many.
func (t *teller) before(failures int) {
	var parts []string
	if n := max(failures, t.past.failures); n > 0 {
		parts = append(parts, "it failed "+times(n))
	}
	if t.past.deaths > 0 {
		parts = append(parts, "was dead "+times(t.past.deaths))
	}
	if t.past.replays > 0 {
		parts = append(parts, "was replayed "+times(t.past.replays))
	}
	switch n := len(parts); n {
	case 0:
	case 1:
		t.say("Before that %s.", parts[0])
	default:
		t.say("Before that %s and %s.", strings.Join(parts[:n-1], ", "), parts[n-1])
	}
}

func (t *teller) done() {
	e := t.Entry
	attempt := "the first attempt"
	if e.Attempts > 1 {
		attempt = fmt.Sprintf("attempt %d", e.Attempts)
	}
	t.say("Landed at %s, %s, at %s, worked by %s.", t.at(e.Time), t.ago(e.Time), attempt, e.Worker)
	t.before(e.Attempts - 1)
	if r := t.past.reopened; r != nil && e.Replaces >= r.Revision {
		t.say("It took the place of an earlier result: %s had it reprocessed at %s: %s.", r.Actor, t.at(r.Time), r.Reason)
	}
	t.next = fmt.Sprintf("`guyline show %s` has the result", t.Key)
}

func (t *teller) waiting() {
	m := t.Message
	if m == nil {
		t.say("Waiting, but nothing is in the queue for it: %s reopened its result at %s (%s), and was cut short before it was put there.",
			t.Entry.Actor, t.at(t.Entry.ReopenedAt), t.Entry.Reason)
		t.next = "`guyline reprocess SITE URI --reason R`, run again, finishes it"
		return
	}
	t.origin(m)
	if t.Parked {
		t.parked(m)
	} else {
		t.queued(m)
	}
	if !m.Event.Due.IsZero() {
		t.say("It is %s.", strings.TrimPrefix(t.due(m.Event.Due), "; "))
	}
	if t.Letter != nil && t.Letter.Sequence != m.Carried.ReplayOf {
		t.say("A dead letter of it lies there too, from %s: it is closed when the report lands.", t.at(t.Letter.FailedAt))
	}
}

// origin says how the message came into the queue.
func (t *teller) origin(m *stream.Message) {
	c := m.Carried
	switch {
	case m.Ref.Stream == stream.Reports:
		t.say("Waiting: it was handed over at %s, %s.", t.at(m.PublishedAt), t.ago(m.PublishedAt))
	case c.Verdict != nil:
		t.say("Waiting to be buried: it was judged at %s, and the dead-letter queue did not take it: %s (%s), %s.",
			t.at(c.Verdict.FailedAt), string(c.Verdict.Class), string(c.Verdict.Code), c.Verdict.Reason)
	case t.Parked && c.Parking != nil:
		t.say("Waiting, put aside: %s is down. The report met that first at %s, %s; the last that was heard of it: %s (%s). No attempt is spent.",
			c.Parking.Upstream, t.at(c.Parking.Since), t.ago(c.Parking.Since), c.Parking.Reason, string(c.Parking.Code))
	case t.Parked:
		t.say("Waiting, parked.")
	case c.Parking != nil:
		t.say("Waiting: it was put aside at %s while %s was down, and is to be tried again.", t.at(c.Parking.Since), c.Parking.Upstream)
	case c.StandsFor.Stream != "" && c.Attempts > 0:
		t.say("Waiting: a worker that was stopped handed it back, after it had failed %s in this pass.", times(c.Attempts))
	case c.StandsFor.Stream != "":
		t.say("Waiting: a worker that was stopped handed it back. That cost no attempt.")
	case c.Reopened > 0 && c.ReplayOf == 0:
		who, why := "an operator", "a settled result is looked at again"
		if t.Entry != nil && t.Entry.State == keyvalue.Reopened {
			who, why = t.Entry.Actor, t.Entry.Reason
		}
		t.say("Waiting to be worked again: %s had it reprocessed: %s.", who, why)
	case c.ReplayOf > 0:
		if r := t.past.replayed; r != nil && r.Letter == c.ReplayOf {
			t.say("Waiting: %s replayed it at %s, %s, with fresh attempts.", r.Actor, t.at(r.Time), t.ago(r.Time))
		} else {
			t.say("Waiting: it was replayed, with fresh attempts.")
		}
	default:
		t.say("Waiting: it was put into the queue at %s, %s, in place of a dead report that it corrects.", t.at(m.PublishedAt), t.ago(m.PublishedAt))
	}
	if c.Replays > 0 {
		t.say("Replayed %s.", times(c.Replays))
	}
}

func (t *teller) parked(m *stream.Message) {
	t.next = "wait; `guyline status` shows what is down"
	if f := t.past.failed; f != nil && m.Carried.Parking == nil {
		t.say("Its last attempt failed at %s (%s): %s.", t.at(f.Time), string(f.Code), f.Reason)
	}
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(m.Header.Get("Nats-Schedule"), "@at "))
	switch {
	case err != nil:
		t.say("It goes back into the queue at a time that cannot be told.")
	case at.After(t.now):
		t.say("It goes back into the queue at %s, in %s.", t.at(at), t.lasting(at.Sub(t.now)))
	default:
		t.say("It goes back into the queue any moment.")
	}
}

// queued says what a worker has made of the message so far.
func (t *teller) queued(m *stream.Message) {
	t.next = "`guyline status --watch`"
	f := t.past.failed
	switch {
	case f != nil && f.Stream == m.Ref.Stream && f.Sequence == m.Ref.Sequence:
		t.say("Attempt %d failed at %s (%s): %s.", f.Attempt, t.at(f.Time), string(f.Code), f.Reason)
		delay, err := time.ParseDuration(f.Delay)
		switch next := f.Time.Add(delay); {
		case err != nil:
		case next.After(t.now):
			t.say("The next attempt is expected in %s.", t.lasting(next.Sub(t.now)))
		default:
			t.say("The next attempt was expected %s: it is running, or it waits for a free worker.", t.ago(next))
		}
	case t.Delivered:
		t.say("A worker has taken it, and no attempt has failed since: it is in work.")
	default:
		t.say("No worker has taken it yet.")
	}
	if t.Pulling == 0 {
		t.say("No worker is asking for work: all are busy, or there is none.")
		t.next = "`guyline run` starts a worker, if none runs"
	}
}

func (t *teller) discarded() {
	d := t.Discarded
	if d.Kind == audit.Repair {
		t.say("Not landed, and given up for a corrected report: %s repaired it at %s, %s.", d.Actor, t.at(d.Time), t.ago(d.Time))
		t.say("The reason: %s.", strings.TrimPrefix(d.Reason, "repaired as "+string(d.NewKey)+": "))
		t.before(0)
		t.next = fmt.Sprintf("`guyline why %s` tells how the corrected report fares", report.Line(string(d.NewKey), 64))
		t.forgotten(d.Time)
		return
	}
	t.say("Not landed, and given up: %s discarded it at %s, %s.", d.Actor, t.at(d.Time), t.ago(d.Time))
	t.say("The reason: %s.", d.Reason)
	t.before(0)
	t.forgotten(d.Time)
	t.next = "nothing, or `guyline publish --site SITE --uri URI` if it is wanted after all"
}

// forgotten says that the report may have landed after a moment, if so much later that the ledger has forgotten it.
func (t *teller) forgotten(since time.Time) bool {
	if t.Forgets == 0 || t.now.Sub(since) <= t.Forgets {
		return false
	}
	t.say("The ledger forgets a settled report after %s: whether it landed between then and %s is not known.", Days(t.Forgets), t.at(t.now.Add(-t.Forgets)))
	return true
}

func (t *teller) unknown() {
	if n := len(t.Events); n > 0 {
		last := t.Events[n-1]
		t.say("No result, message or letter of it is left. The audit trail knows it: the last event is %s at %s.", string(last.Kind), t.at(last.Time))
		t.next = "`guyline publish --site SITE --uri URI` hands it over again"
		if t.forgotten(last.Time) {
			t.next += ", and it is worked again"
			return
		}
		t.say("Guyline does not remove reports like that: an age limit on a stream did, or a person with other tools.")
		return
	}
	if t.Forgets > 0 {
		t.say("Never handed over under this site and source, or settled before %s: the ledger forgets a settled report after %s.",
			t.at(t.now.Add(-t.Forgets)), Days(t.Forgets))
	} else {
		t.say("Never handed over under this site and source.")
	}
	t.say("A report's key is the SHA-256 of site_id:source_uri, so site and source must be exactly as they were published: a capital letter, " +
		"a space or a slash more makes another report.")
	t.next = "compare them with the list that was published; `guyline publish --site SITE --uri URI` hands the report over"
}
