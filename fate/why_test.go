package fate

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

var (
	now = time.Date(2026, 11, 29, 7, 12, 0, 0, time.UTC)
	key = report.NewKey("TWR-1", "sftp://portal/a.pdf")
)

// at is a time of today, like 01:10.
func at(clock string) time.Time {
	t, err := time.Parse("15:04", clock)
	if err != nil {
		panic(err)
	}
	return now.Truncate(24 * time.Hour).Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute)
}

// failed, died and so on are events of the message with this sequence in the publishers' queue.
func failed(clock string, sequence uint64, attempt int) audit.Event {
	return audit.Event{
		Time: at(clock), Kind: audit.AttemptFailed, Worker: "w/1", Attempt: attempt, Code: report.CodeConnection, Reason: "refused.", Delay: "400ms",
		Stream: stream.Reports, Sequence: sequence,
	}
}

func died(clock string, sequence uint64, attempts int) audit.Event {
	return audit.Event{
		Time: at(clock), Kind: audit.Death, Worker: "w/1", Attempt: attempts, Class: report.ClassExhausted, Code: report.CodeConnection,
		Reason: fmt.Sprintf("exhausted %d attempts: refused", attempts), Stream: stream.Reports, Sequence: sequence, Published: at("01:00"),
	}
}

func act(kind audit.Kind, clock string) audit.Event {
	return audit.Event{Time: at(clock), Kind: kind, Actor: "ada@office", Reason: "the source is back", Letter: 7}
}

// letter is of a report that was exhausted, unless it is changed.
func letter(change func(*dlq.Letter)) Answer {
	l := dlq.Letter{
		Sequence: 9, Key: key, Site: "TWR-1", Class: report.ClassExhausted, Code: report.CodeConnection, Reason: "exhausted 4 attempts: dial tcp: refused",
		Attempts: 4, FirstFailedAt: at("01:10"), FailedAt: at("01:12"), Due: now.Add(25 * time.Hour), Upstream: "sftp://portal",
		PublishedAt: at("01:00"), Body: []byte(`{"site_id":"TWR-1","source_uri":"sftp://me:secret@portal/a.pdf"}`),
	}
	change(&l)
	return Answer{Fate: Dead, Key: key, Letter: &l}
}

func poison(code report.Code, attempts int, reason string) Answer {
	return letter(func(l *dlq.Letter) {
		l.Class, l.Code, l.Reason, l.Attempts, l.Due, l.Upstream = report.ClassPoison, code, reason, attempts, time.Time{}, "file"
	})
}

// queued is a message in the queue that these headers make.
func queued(name string, h nats.Header) Answer {
	subject := "reports.requeued.TWR-1." + string(key)
	if h.Get("Nats-Schedule") != "" {
		subject = "reports.parked.TWR-1." + string(key)
	}
	m := stream.Read(stream.Ref{Stream: name, Sequence: 3}, subject, h, []byte(`{"site_id":"TWR-1","source_uri":"sftp://portal/a.pdf"}`), at("01:00"))
	return Answer{Fate: Waiting, Key: key, Message: &m, Parked: m.Parked()}
}

func done(change func(*keyvalue.Entry)) Answer {
	e := keyvalue.Entry{State: keyvalue.Done, SiteID: "TWR-1", SourceURI: "sftp://portal/a.pdf", Attempts: 1, Worker: "w/2", Time: at("06:12"), Revision: 5}
	change(&e)
	return Answer{Fate: Done, Key: key, Entry: &e}
}

func TestPast(t *testing.T) {
	t.Parallel()
	abandoned := died("01:12", 3, 4)
	corrected := died("01:13", 3, 2)
	corrected.Corrects = true
	for _, tt := range []struct {
		what                      string
		events                    []audit.Event
		failures, deaths, replays int
	}{
		{"nothing", nil, 0, 0, 0},
		{"in retry", []audit.Event{failed("01:10", 3, 1), failed("01:11", 3, 2)}, 2, 0, 0},
		{"a failure that was not recorded", []audit.Event{failed("01:11", 3, 2)}, 2, 0, 0},
		{"dead, none of its failures recorded", []audit.Event{died("01:12", 3, 4)}, 4, 1, 0},
		{"a late failure of a worker that had lost it", []audit.Event{died("01:12", 3, 4), failed("01:13", 3, 3)}, 4, 1, 0},
		{"abandoned, then judged", []audit.Event{abandoned, corrected}, 2, 1, 0},
		{"never tried", []audit.Event{died("01:12", 3, 0)}, 0, 1, 0},
		{"published twice", []audit.Event{failed("01:10", 3, 1), failed("01:11", 4, 1), failed("01:11", 4, 2)}, 3, 0, 0},
		{"replayed, in retry", []audit.Event{died("01:12", 3, 4), act(audit.Replay, "02:00"), failed("02:01", 4, 1)}, 5, 1, 1},
	} {
		p := pastOf(tt.events)
		if p.failures != tt.failures || p.deaths != tt.deaths || p.replays != tt.replays {
			t.Errorf("%s: %d failures, %d deaths, %d replays; want %d, %d, %d", tt.what, p.failures, p.deaths, p.replays, tt.failures, tt.deaths, tt.replays)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	second := died("02:05", 4, 1)
	second.Published = at("02:00")
	a := done(func(e *keyvalue.Entry) { e.Attempts = 3 })
	s := tell(facts{Answer: a, Events: []audit.Event{failed("01:10", 3, 1), died("01:12", 3, 2), act(audit.Discard, "01:30"), second, act(audit.Replay, "03:00")}, Earlier: 8}, now)
	var got []string
	for _, l := range s.Events {
		got = append(got, fmt.Sprint(l.Time.Format("15:04 "), l.What, " ", l.Attempt, " ", l.By))
	}
	want := []string{
		"01:00 published 0 ", "01:10 attempt_failed 1 w/1", "01:12 death 2 w/1", "01:30 discard 0 ada@office", "02:00 published 0 ", "02:05 death 1 w/1",
		"03:00 replay 0 ada@office", "06:12 committed 3 w/2",
	}
	if diff := cmp.Diff(want, got); diff != "" || s.Earlier != 8 {
		t.Errorf("%d earlier; events (-want +got):\n%s", s.Earlier, diff)
	}
}

// What strangers wrote neither breaks a sentence nor shows a password.
func TestHostileStory(t *testing.T) {
	t.Parallel()
	const rogue = "\x1b]0;owned\x07 line\r\nbreak\u2028\u009b31m"
	events := []audit.Event{{Time: at("01:10"), Kind: audit.Death, Worker: rogue, Actor: rogue, Code: rogue, Reason: strings.Repeat(rogue, 1000), Attempt: 1}}
	for _, a := range []Answer{
		letter(func(l *dlq.Letter) {
			l.Class, l.Code, l.Reason, l.Upstream, l.Site = rogue, rogue, strings.Repeat(rogue, 1000), rogue, rogue
		}),
		done(func(e *keyvalue.Entry) { e.Worker = rogue }),
		{Fate: Discarded, Discarded: &audit.Event{Kind: audit.Repair, Actor: rogue, Reason: rogue, NewKey: rogue}},
		{Fate: Unknown},
	} {
		s := tell(facts{Answer: a, Events: events}, now)
		for _, text := range append(s.Sentences, s.Next, s.Events[len(s.Events)-1].Reason, s.Events[0].By, s.Events[len(s.Events)-1].By) {
			if strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "\u2028") || len(text) > 3*report.MaxReason {
				t.Errorf("%s: %q", s.Fate, text[:min(200, len(text))])
			}
		}
	}
	if s := tell(facts{Answer: letter(func(*dlq.Letter) {})}, now); s.SourceURI != "sftp://portal/a.pdf" || s.SiteID != "TWR-1" {
		t.Errorf("the story is of %s %s", s.SiteID, s.SourceURI)
	}
}
