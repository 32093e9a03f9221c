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

func TestTell(t *testing.T) {
	t.Parallel()
	four := []audit.Event{failed("01:10", 3, 1), failed("01:11", 3, 2), failed("01:11", 3, 3), died("01:12", 3, 4)}
	twice := append(append([]audit.Event{}, four...), act(audit.Replay, "02:00"), died("02:05", 4, 4), act(audit.Replay, "03:00"))
	requeued := func(pairs ...string) Answer {
		h := nats.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return queued(stream.Requeued, h)
	}
	for _, tt := range []struct {
		what string
		k    Known
		want string
		next string // is part of what is said
	}{
		{
			"exhausted, as in the manual",
			Known{Answer: letter(func(l *dlq.Letter) { l.Replays = 2 }), Events: four},
			"Not landed. It failed 4 times between 01:10 and 01:12 UTC because sftp://portal refused or broke the connection. The last error: " +
				"dial tcp: refused. It has waited in the dead-letter queue for 6 hours; due in 1 day. Replayed twice.",
			"once the source is well again, `guyline dlq replay " + key.Short() + "`",
		},
		{
			"exhausted, and the trail is gone; overdue; of yesterday",
			Known{Answer: letter(func(l *dlq.Letter) {
				l.Due, l.FirstFailedAt, l.FailedAt = now.Add(-3*time.Hour), at("01:10").Add(-24*time.Hour), at("01:10").Add(-24*time.Hour)
			})},
			"Not landed. It failed 4 times at 2026-11-28 01:10 UTC because sftp://portal refused or broke the connection. The last error: " +
				"dial tcp: refused. It has waited in the dead-letter queue for 1 day; overdue for 3 hours.",
			"dlq replay",
		},
		{
			"poison at the first attempt",
			Known{Answer: poison(report.CodeMalformedPDF, 1, "no trailer")},
			"Not landed. It failed for good at 01:12 UTC because the file is damaged: no trailer. It has waited in the dead-letter queue for 6 hours.",
			"once the file is repaired, `guyline dlq replay",
		},
		{
			"poison after other failures, with a code of the handler's own",
			Known{Answer: poison("wrong-form", 3, "page 2")},
			"Not landed. It failed 3 times between 01:10 and 01:12 UTC, the last time for good, because of \"wrong-form\": page 2. " +
				"It has waited in the dead-letter queue for 6 hours.",
			"dlq discard",
		},
		{
			"a file that is not there",
			Known{Answer: poison(report.CodeNotFound, 1, "404")},
			"Not landed. It failed for good at 01:12 UTC because the source does not have it: 404. It has waited in the dead-letter queue for 6 hours.",
			"`guyline dlq repair " + key.Short() + " --uri NEW --reason R`",
		},
		{
			"an unreadable event",
			Known{Answer: poison(report.CodeUndecodable, 0, "unexpected end of JSON")},
			"Not landed. It was not tried, as the event cannot be read (undecodable): unexpected end of JSON. It has waited in the dead-letter queue for 6 hours.",
			"have it published again",
		},
		{
			"an unknown site",
			Known{Answer: poison(report.CodeUnknownSite, 0, "site TWR-1 is not in the registry")},
			"Not landed. It was refused at 01:12 UTC, as the site registry does not know its site: site TWR-1 is not in the registry. " +
				"It has waited in the dead-letter queue for 6 hours.",
			"`guyline sites import FILE`",
		},
		{
			"abandoned",
			Known{Answer: letter(func(l *dlq.Letter) { l.Class, l.Code = report.ClassAbandoned, report.CodeAbandoned })},
			"Not landed. Workers took it 4 times and vanished with it, as if it had killed them; it was given up at 01:12 UTC. " +
				"It has waited in the dead-letter queue for 6 hours; due in 1 day.",
			"workers' logs",
		},
		{
			"quarantined",
			Known{Answer: func() Answer {
				a := letter(func(l *dlq.Letter) { l.Replays = 5 })
				a.Quarantined = true
				return a
			}()},
			"Not landed. It failed 4 times between 01:10 and 01:12 UTC because sftp://portal refused or broke the connection. The last error: dial tcp: refused. " +
				"It has waited in the dead-letter queue for 6 hours; due in 1 day. Replayed 5 times: it is quarantined, so that only a person replays it again, by its key.",
			"--force`",
		},
		{
			"dead again: failures of every pass count", // the clock of the queue starts at the death, not when the report was published
			Known{Answer: letter(func(l *dlq.Letter) { l.FailedAt, l.Replays, l.Due = at("02:05"), 1, time.Time{} }), Events: twice[:6], Keeps: 24 * time.Hour},
			"Not landed. It failed 8 times between 01:10 and 02:05 UTC because sftp://portal refused or broke the connection. The last error: dial tcp: refused. " +
				"It has waited in the dead-letter queue for 5 hours; the queue drops it in 18 hours. Replayed once.",
			"dlq replay",
		},
		{
			"done at once", Known{Answer: done(func(*keyvalue.Entry) {})},
			"Landed at 06:12 UTC, 1 hour ago, at the first attempt, worked by w/2.",
			"`guyline show " + string(key) + "`",
		},
		{
			"done after failures and replays",
			Known{Answer: done(func(e *keyvalue.Entry) { e.Attempts = 2 }), Events: append(twice, failed("03:01", 5, 1))},
			"Landed at 06:12 UTC, 1 hour ago, at attempt 2, worked by w/2. Before that it failed 9 times, was dead twice and was replayed twice.",
			"guyline show",
		},
		{
			"done, and a failure was not recorded",
			Known{Answer: done(func(e *keyvalue.Entry) { e.Attempts = 2 })},
			"Landed at 06:12 UTC, 1 hour ago, at attempt 2, worked by w/2. Before that it failed once.",
			"guyline show",
		},
		{
			"done again",
			Known{Answer: done(func(e *keyvalue.Entry) { e.Replaces = 4 }), Events: []audit.Event{{
				Time: at("05:00"), Kind: audit.Reprocess, Actor: "ada@office", Reason: "a corrected file", Revision: 3,
			}}},
			"Landed at 06:12 UTC, 1 hour ago, at the first attempt, worked by w/2. " +
				"It took the place of an earlier result: ada@office had it reprocessed at 05:00 UTC: a corrected file.",
			"guyline show",
		},
		{
			"waiting, fresh, and nobody works", Known{Answer: queued(stream.Reports, nil)},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. No worker has taken it yet. No worker is asking for work: all are busy, or there is none.",
			"`guyline run`",
		},
		{
			"in work", Known{Answer: queued(stream.Reports, nil), Delivered: true, Pulling: 1},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. A worker has taken it, and no attempt has failed since: it is in work.",
			"`guyline status --watch`",
		},
		{
			"in retry",
			Known{Answer: queued(stream.Reports, nil), Delivered: true, Pulling: 1, Events: []audit.Event{func() audit.Event {
				e := failed("07:11", 3, 2)
				e.Delay = "3m0s"
				return e
			}()}},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. Attempt 2 failed at 07:11 UTC (connection): refused. The next attempt is expected in 2 minutes.",
			"status",
		},
		{
			"in retry, which is late",
			Known{Answer: queued(stream.Reports, nil), Delivered: true, Pulling: 1, Events: []audit.Event{failed("07:02", 3, 1)}},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. Attempt 1 failed at 07:02 UTC (connection): refused. " +
				"The next attempt was expected 9 minutes ago: it is running, or it waits for a free worker.",
			"status",
		},
		{
			"handed back, untried", Known{Answer: requeued(report.HeaderStream, stream.Reports, report.HeaderStreamSequence, "1"), Pulling: 1},
			"Waiting: a worker that was stopped handed it back. That cost no attempt. No worker has taken it yet.",
			"status",
		},
		{
			"handed back after attempts", Known{Answer: requeued(report.HeaderStream, stream.Reports, report.HeaderStreamSequence, "1", report.HeaderAttempts, "2"), Pulling: 1},
			"Waiting: a worker that was stopped handed it back, after it had failed twice in this pass. No worker has taken it yet.",
			"status",
		},
		{
			"handed back with a verdict",
			Known{Answer: requeued(report.HeaderStream, stream.Reports, report.HeaderStreamSequence, "1", report.HeaderAttempts, "1", report.HeaderClass, "poison",
				report.HeaderCode, "not-found", report.HeaderReason, "404", report.HeaderFailedAt, report.FormatTime(at("06:00"))), Pulling: 1},
			"Waiting to be buried: it was judged at 06:00 UTC, and the dead-letter queue did not take it: poison (not-found), 404. No worker has taken it yet.",
			"status",
		},
		{
			"replayed",
			Known{Answer: requeued(report.HeaderReplayOf, "7", report.HeaderReplays, "2"), Pulling: 1, Events: twice},
			"Waiting: ada@office replayed it at 03:00 UTC, 4 hours ago, with fresh attempts. Replayed twice. No worker has taken it yet.",
			"status",
		},
		{
			"replayed, says the copy alone", Known{Answer: requeued(report.HeaderReplayOf, "8", report.HeaderReplays, "1"), Pulling: 1, Events: twice},
			"Waiting: it was replayed, with fresh attempts. Replayed once. No worker has taken it yet.",
			"status",
		},
		{
			"in place of another", Known{Answer: requeued(report.HeaderPublishedAt, report.FormatTime(at("06:12"))), Pulling: 1},
			"Waiting: it was put into the queue at 06:12 UTC, 1 hour ago, in place of a dead report that it corrects. No worker has taken it yet.",
			"status",
		},
		{
			"reopened",
			Known{Answer: func() Answer {
				a := requeued(report.HeaderReopened, "4")
				a.Entry = &keyvalue.Entry{State: keyvalue.Reopened, Actor: "ada@office", Reason: "a corrected file", ReopenedAt: at("06:00")}
				return a
			}(), Pulling: 1},
			"Waiting to be worked again: ada@office had it reprocessed: a corrected file. No worker has taken it yet.",
			"status",
		},
		{
			"reopened, cut short",
			Known{Answer: Answer{Fate: Waiting, Key: key, Entry: &keyvalue.Entry{
				State: keyvalue.Reopened, SiteID: "TWR-1", Actor: "ada@office", Reason: "a corrected file", ReopenedAt: at("06:00"),
			}}},
			"Waiting, but nothing is in the queue for it: ada@office reopened its result at 06:00 UTC (a corrected file), and was cut short before it was put there.",
			"`guyline reprocess SITE URI --reason R`",
		},
		{
			"parked",
			Known{Answer: requeued("Nats-Schedule", "@at 2026-11-29T08:12:00Z", report.HeaderAttempts, "1", report.HeaderStream, stream.Reports), Events: []audit.Event{failed("01:10", 3, 1)}},
			"Waiting, parked. Its last attempt failed at 01:10 UTC (connection): refused. It goes back into the queue at 08:12 UTC, in 1 hour.",
			"wait",
		},
		{
			"parked, as its upstream is down", Known{Answer: requeued("Nats-Schedule", "@at 2026-11-29T07:14:00Z", "Guyline-Stream", "REPORTS", "Guyline-Stream-Sequence", "3",
				"Guyline-Parked-Since", "2026-11-29T06:12:00Z", "Guyline-Upstream", "sftp://portal", "Guyline-Code", "connection", "Guyline-Reason", "refused")},
			"Waiting, put aside: sftp://portal is down. The report met that first at 06:12 UTC, 1 hour ago; the last that was heard of it: refused (connection). " +
				"No attempt is spent. It goes back into the queue at 07:14 UTC, in 2 minutes.",
			"guyline status",
		}, {
			"parked, and back in the queue", Known{Answer: requeued("Guyline-Stream", "REPORTS", "Guyline-Stream-Sequence", "3",
				"Guyline-Parked-Since", "2026-11-29T06:12:00Z", "Guyline-Upstream", "sftp://portal", "Guyline-Code", "connection", "Guyline-Reason", "refused")},
			"Waiting: it was put aside at 06:12 UTC while sftp://portal was down, and is to be tried again. No worker has taken it yet. No worker is asking for work: all are busy, or there is none.", "guyline run",
		}, {
			"parked, and time is up", Known{Answer: requeued("Nats-Schedule", "@at 2026-11-29T07:12:00Z")},
			"Waiting, parked. It goes back into the queue any moment.", "wait",
		},
		{
			"parked by somebody else", Known{Answer: requeued("Nats-Schedule", "@every 1h")},
			"Waiting, parked. It goes back into the queue at a time that cannot be told.", "wait",
		},
		{
			"published again while dead",
			Known{Answer: func() Answer {
				a := queued(stream.Reports, nil)
				a.Letter = letter(func(*dlq.Letter) {}).Letter
				return a
			}(), Pulling: 1},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. No worker has taken it yet. " +
				"A dead letter of it lies there too, from 01:12 UTC: it is closed when the report lands.",
			"status",
		},
		{
			"discarded",
			Known{Answer: Answer{Fate: Discarded, Key: key, Discarded: new(act(audit.Discard, "04:00"))}, Events: append(four, act(audit.Discard, "04:00"))},
			"Not landed, and given up: ada@office discarded it at 04:00 UTC, 3 hours ago. The reason: the source is back. Before that it failed 4 times and was dead once.",
			"publish",
		},
		{
			"repaired",
			Known{Answer: Answer{Fate: Discarded, Key: key, Discarded: &audit.Event{
				Time: at("04:00"), Kind: audit.Repair, Actor: "ada@office", Reason: "repaired as abc: the file moved", NewKey: "abc",
			}}},
			"Not landed, and given up for a corrected report: ada@office repaired it at 04:00 UTC, 3 hours ago. The reason: the file moved.",
			"`guyline why abc`",
		},
		{
			"never seen", Known{Answer: Answer{Fate: Unknown, Key: key}},
			"Never handed over under this site and source. A report's key is the SHA-256 of site_id:source_uri, so site and source must be exactly as they were " +
				"published: a capital letter, a space or a slash more makes another report.",
			"compare them with the list",
		},
		{
			"removed behind our back", Known{Answer: Answer{Fate: Unknown, Key: key}, Events: four},
			"Not landed, and no message or letter of it is left. The audit trail knows it: the last event is death at 01:12 UTC. " +
				"Guyline does not remove reports like that: an age limit on a stream did, or a person with other tools.",
			"publish",
		},
	} {
		s := Tell(tt.k, now)
		if diff := cmp.Diff(tt.want, strings.Join(s.Sentences, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
		if !strings.Contains(s.Next, tt.next) {
			t.Errorf("%s: next is %q, which has no %q", tt.what, s.Next, tt.next)
		}
		if s.Fate != tt.k.Fate || s.Key != key {
			t.Errorf("%s: the story is of %s %s", tt.what, s.Fate, s.Key.Short())
		}
	}
}

// What is said of failures is exact, whatever the order of events.
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
	s := Tell(Known{Answer: a, Events: []audit.Event{failed("01:10", 3, 1), died("01:12", 3, 2), act(audit.Discard, "01:30"), second, act(audit.Replay, "03:00")}, Earlier: 8}, now)
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
		s := Tell(Known{Answer: a, Events: events}, now)
		for _, text := range append(s.Sentences, s.Next, s.Events[len(s.Events)-1].Reason, s.Events[0].By, s.Events[len(s.Events)-1].By) {
			if strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "\u2028") || len(text) > 3*report.MaxReason {
				t.Errorf("%s: %q", s.Fate, text[:min(200, len(text))])
			}
		}
	}
	if s := Tell(Known{Answer: letter(func(*dlq.Letter) {})}, now); s.SourceURI != "sftp://portal/a.pdf" || s.SiteID != "TWR-1" {
		t.Errorf("the story is of %s %s", s.SiteID, s.SourceURI)
	}
}
