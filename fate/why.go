package fate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// maxLines bounds how many events of one report a story is told from: the newest.
const maxLines = 1000

// facts is what a report's story is told from. Events is the audit trail's, in its order, without the settled entries that
// they may carry.
type facts struct {
	Answer
	Events    []audit.Event
	Earlier   int           // older events that are left away
	Garbled   int           // what the trail holds about it that is not an event
	Delivered bool          // of waiting: a worker has had the message in hand
	Pulling   int           // of waiting: open pull requests of workers
	Keeps     time.Duration // of dead: after how long the dead-letter queue drops a letter; 0 = never
}

// Story is what happened to a report, for a person.
type Story struct {
	Fate      Fate       `json:"fate"`
	Key       report.Key `json:"key"`
	SiteID    string     `json:"site_id,omitempty"`
	SourceURI string     `json:"source_uri,omitempty"` // redacted
	Sentences []string   `json:"sentences"`
	Next      string     `json:"next,omitempty"` // what helps now
	Events    []Line     `json:"events"`
	Earlier   int        `json:"earlier,omitempty"` // events before these, which are left away
}

// Line is one event of a story: of the audit trail, a publication, or the commit.
type Line struct {
	Time    time.Time    `json:"time"`
	What    string       `json:"what"` // an [audit.Kind], "published" or "committed"
	Attempt int          `json:"attempt,omitempty"`
	By      string       `json:"by,omitempty"` // the worker, or the person who acted
	Class   report.Class `json:"class,omitempty"`
	Code    report.Code  `json:"code,omitempty"`
	Reason  string       `json:"reason,omitempty"`
}

// Why finds what is known of one report and tells its story. The site may be "*" if only the key is known.
func (f *Finder) Why(ctx context.Context, site report.Token, key report.Key) (Story, error) {
	answer, err := f.Of(ctx, site, key)
	if err != nil {
		return Story{}, err
	}
	k := facts{Answer: answer}
	for e, err := range f.trail.Log(ctx, site, key) {
		if errors.Is(err, audit.ErrUnreadable) {
			k.Garbled++
			continue
		}
		if err != nil {
			return Story{}, err
		}
		e.Settled = nil
		if len(k.Events) == maxLines {
			k.Events, k.Earlier = k.Events[1:], k.Earlier+1
		}
		k.Events = append(k.Events, e)
	}
	switch {
	case k.Message != nil:
		state, err := f.queues.State(ctx, k.Message.Ref.Stream)
		if err != nil {
			return Story{}, err
		}
		k.Delivered, k.Pulling = k.Message.Ref.Sequence <= state.Delivered, state.Pulling
	case k.Fate == Dead:
		if k.Keeps, err = f.letters.Keeps(ctx); err != nil {
			return Story{}, err
		}
	}
	return tell(k, time.Now()), nil
}

// tell tells a story as of a time. It is pure.
func tell(k facts, now time.Time) Story {
	event := k.event()
	s := Story{Fate: k.Fate, Key: k.Key, SiteID: event.SiteID, SourceURI: report.RedactSource(event.SourceURI), Events: k.lines(), Earlier: k.Earlier}
	t := teller{facts: k, past: pastOf(k.Events), now: now}
	switch k.Fate {
	case Done:
		t.done()
	case Waiting:
		t.waiting()
	case Dead:
		t.dead()
	case Discarded:
		t.discarded()
	default:
		t.unknown()
	}
	if k.Garbled > 0 {
		t.say("The audit trail also holds something about it, %s, that is not an event: `guyline audit verify` tells more.", times(k.Garbled))
	}
	s.Sentences, s.Next = t.said, t.next
	return s
}

// event is as much of the report's event as is known.
func (k facts) event() report.Event {
	switch {
	case k.Fate == Dead:
		if e, err := report.Decode(k.Letter.Body); err == nil {
			return e
		}
		return report.Event{SiteID: k.Letter.SiteID()}
	case k.Message != nil:
		return k.Message.Event
	case k.Entry != nil:
		return report.Event{SiteID: k.Entry.SiteID, SourceURI: k.Entry.SourceURI}
	case len(k.Events) > 0:
		return report.Event{SiteID: k.Events[0].SiteID}
	}
	return report.Event{}
}

// lines is every event, each publication before what came of it, and the commit last.
func (k facts) lines() []Line {
	lines := []Line{}
	var published []time.Time
	publish := func(at time.Time) {
		if !at.IsZero() && !slices.ContainsFunc(published, at.Equal) {
			published = append(published, at)
		}
	}
	for _, e := range k.Events {
		publish(e.Published)
	}
	if k.Message != nil {
		publish(k.Message.PublishedAt)
	}
	if k.Fate == Dead {
		publish(k.Letter.PublishedAt)
	}
	slices.SortFunc(published, time.Time.Compare)
	for _, e := range k.Events {
		for len(published) > 0 && !published[0].After(e.Time) {
			lines = append(lines, Line{Time: published[0], What: "published"})
			published = published[1:]
		}
		lines = append(lines, Line{
			Time: e.Time, What: string(e.Kind), Attempt: e.Attempt, By: by(e), Class: e.Class, Code: e.Code, Reason: report.Line(e.Reason, report.MaxReason),
		})
	}
	for _, at := range published {
		lines = append(lines, Line{Time: at, What: "published"})
	}
	if k.Fate == Done {
		lines = append(lines, Line{Time: k.Entry.Time, What: "committed", Attempt: k.Entry.Attempts, By: report.Line(k.Entry.Worker, report.MaxHeaderValue)})
	}
	return lines
}

// by is who is behind an event.
func by(e audit.Event) string {
	if e.Actor != "" {
		return report.Line(e.Actor, report.MaxHeaderValue)
	}
	return report.Line(e.Worker, report.MaxHeaderValue)
}

// past is the sum of a report's events.
type past struct {
	failures, deaths, replays int
	first                     time.Time    // failure that is known
	failed                    *audit.Event // the newest attempt_failed
	reopened                  *audit.Event // the newest reprocess
	replayed                  *audit.Event // the newest replay
}

// pastOf counts what the events say. A death says how many attempts were spent in its pass, so it counts for the failed ones
// before it, and for one that a worker which had lost the report recorded after it.
func pastOf(events []audit.Event) (p past) {
	type message struct {
		stream   string
		sequence uint64
	}
	buried := map[message]int{}
	pass := 0
	for i, e := range events {
		m := message{e.Stream, e.Sequence}
		switch e.Kind {
		case audit.AttemptFailed:
			if _, over := buried[m]; over {
				continue
			}
			p.failed = &events[i]
			if e.Attempt <= pass { // another pass, of a report that was published again
				p.failures += pass
				pass = 0
			}
			pass = e.Attempt
		case audit.Death:
			if e.Corrects {
				p.failures -= buried[m]
				p.deaths--
			}
			buried[m] = e.Attempt
			p.failures += max(e.Attempt, pass)
			p.deaths++
			pass = 0
		case audit.Replay:
			p.replays++
			p.replayed = &events[i]
		case audit.Reprocess:
			p.reopened = &events[i]
		}
		if (e.Kind == audit.AttemptFailed || e.Kind == audit.Death) && p.first.IsZero() {
			p.first = e.Time
		}
	}
	p.failures += pass
	return p
}
