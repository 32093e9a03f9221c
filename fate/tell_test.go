package fate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

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
		k    facts
		want string
		next string // is part of what is said
	}{
		{
			"exhausted, as in the manual",
			facts{Answer: letter(func(l *dlq.Letter) { l.Replays = 2 }), Events: four},
			"Not landed. It failed 4 times between 01:10 and 01:12 UTC because sftp://portal refused or broke the connection. The last error: " +
				"dial tcp: refused. It has waited in the dead-letter queue for 6 hours; due in 1 day. Replayed twice.",
			"once the source is well again, `guyline dlq replay " + key.Short() + "`",
		},
		{
			"the trail holds something strange about it",
			facts{Answer: letter(func(l *dlq.Letter) {}), Events: four, Garbled: 2},
			"Not landed. It failed 4 times between 01:10 and 01:12 UTC because sftp://portal refused or broke the connection. The last error: " +
				"dial tcp: refused. It has waited in the dead-letter queue for 6 hours; due in 1 day. " +
				"The audit trail also holds something about it, twice, that is not an event: `guyline audit verify` tells more.",
			"dlq replay",
		},
		{
			"exhausted, and the trail is gone; overdue; of yesterday",
			facts{Answer: letter(func(l *dlq.Letter) {
				l.Due, l.FirstFailedAt, l.FailedAt = now.Add(-3*time.Hour), at("01:10").Add(-24*time.Hour), at("01:10").Add(-24*time.Hour)
			})},
			"Not landed. It failed 4 times at 2026-11-28 01:10 UTC because sftp://portal refused or broke the connection. The last error: " +
				"dial tcp: refused. It has waited in the dead-letter queue for 1 day; overdue for 3 hours.",
			"dlq replay",
		},
		{
			"poison at the first attempt",
			facts{Answer: poison(report.CodeMalformedPDF, 1, "no trailer")},
			"Not landed. It failed for good at 01:12 UTC because the file is damaged: no trailer. It has waited in the dead-letter queue for 6 hours.",
			"once the file is repaired, `guyline dlq replay",
		},
		{
			"poison after other failures, with a code of the handler's own",
			facts{Answer: poison("wrong-form", 3, "page 2")},
			"Not landed. It failed 3 times between 01:10 and 01:12 UTC, the last time for good, because of \"wrong-form\": page 2. " +
				"It has waited in the dead-letter queue for 6 hours.",
			"dlq discard",
		},
		{
			"a file that is not there",
			facts{Answer: poison(report.CodeNotFound, 1, "404")},
			"Not landed. It failed for good at 01:12 UTC because the source does not have it: 404. It has waited in the dead-letter queue for 6 hours.",
			"`guyline dlq repair " + key.Short() + " --uri NEW --reason R`",
		},
		{
			"an unreadable event",
			facts{Answer: poison(report.CodeUndecodable, 0, "unexpected end of JSON")},
			"Not landed. It was not tried, as the event cannot be read (undecodable): unexpected end of JSON. It has waited in the dead-letter queue for 6 hours.",
			"have it published again",
		},
		{
			"an unknown site",
			facts{Answer: poison(report.CodeUnknownSite, 0, "site TWR-1 is not in the registry")},
			"Not landed. It was refused at 01:12 UTC, as the site registry does not know its site: site TWR-1 is not in the registry. " +
				"It has waited in the dead-letter queue for 6 hours.",
			"`guyline sites import FILE`",
		},
		{
			"abandoned",
			facts{Answer: letter(func(l *dlq.Letter) { l.Class, l.Code = report.ClassAbandoned, report.CodeAbandoned })},
			"Not landed. Workers took it 4 times and vanished with it, as if it had killed them; it was given up at 01:12 UTC. " +
				"It has waited in the dead-letter queue for 6 hours; due in 1 day.",
			"workers' logs",
		},
		{
			"quarantined",
			facts{Answer: func() Answer {
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
			facts{Answer: letter(func(l *dlq.Letter) { l.FailedAt, l.Replays, l.Due = at("02:05"), 1, time.Time{} }), Events: twice[:6], Keeps: 24 * time.Hour},
			"Not landed. It failed 8 times between 01:10 and 02:05 UTC because sftp://portal refused or broke the connection. The last error: dial tcp: refused. " +
				"It has waited in the dead-letter queue for 5 hours; the queue drops it in 18 hours. Replayed once.",
			"dlq replay",
		},
		{
			"done at once", facts{Answer: done(func(*keyvalue.Entry) {})},
			"Landed at 06:12 UTC, 1 hour ago, at the first attempt, worked by w/2.",
			"`guyline show " + string(key) + "`",
		},
		{
			"done after failures and replays",
			facts{Answer: done(func(e *keyvalue.Entry) { e.Attempts = 2 }), Events: append(twice, failed("03:01", 5, 1))},
			"Landed at 06:12 UTC, 1 hour ago, at attempt 2, worked by w/2. Before that it failed 9 times, was dead twice and was replayed twice.",
			"guyline show",
		},
		{
			"done, and a failure was not recorded",
			facts{Answer: done(func(e *keyvalue.Entry) { e.Attempts = 2 })},
			"Landed at 06:12 UTC, 1 hour ago, at attempt 2, worked by w/2. Before that it failed once.",
			"guyline show",
		},
		{
			"done again",
			facts{Answer: done(func(e *keyvalue.Entry) { e.Replaces = 4 }), Events: []audit.Event{{
				Time: at("05:00"), Kind: audit.Reprocess, Actor: "ada@office", Reason: "a corrected file", Revision: 3,
			}}},
			"Landed at 06:12 UTC, 1 hour ago, at the first attempt, worked by w/2. " +
				"It took the place of an earlier result: ada@office had it reprocessed at 05:00 UTC: a corrected file.",
			"guyline show",
		},
		{
			"waiting, fresh, and nobody works", facts{Answer: queued(stream.Reports, nil)},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. No worker has taken it yet. No worker is asking for work: all are busy, or there is none.",
			"`guyline run`",
		},
		{
			"in work, all workers busy", facts{Answer: queued(stream.Reports, nil), Delivered: true},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. A worker has taken it, and no attempt has failed since: it is in work. " +
				"No worker is asking for work: all are busy, or there is none.", "starts a worker, if none runs",
		},
		{
			"in work", facts{Answer: queued(stream.Reports, nil), Delivered: true, Pulling: 1},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. A worker has taken it, and no attempt has failed since: it is in work.",
			"`guyline status --watch`",
		},
		{
			"in retry",
			facts{Answer: queued(stream.Reports, nil), Delivered: true, Pulling: 1, Events: []audit.Event{func() audit.Event {
				e := failed("07:11", 3, 2)
				e.Delay = "3m0s"
				return e
			}()}},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. Attempt 2 failed at 07:11 UTC (connection): refused. The next attempt is expected in 2 minutes.",
			"status",
		},
		{
			"in retry, which is late",
			facts{Answer: queued(stream.Reports, nil), Delivered: true, Pulling: 1, Events: []audit.Event{failed("07:02", 3, 1)}},
			"Waiting: it was handed over at 01:00 UTC, 6 hours ago. Attempt 1 failed at 07:02 UTC (connection): refused. " +
				"The next attempt was expected 9 minutes ago: it is running, or it waits for a free worker.",
			"status",
		},
		{
			"handed back, untried", facts{Answer: requeued(report.HeaderStream, stream.Reports, report.HeaderStreamSequence, "1"), Pulling: 1},
			"Waiting: a worker that was stopped handed it back. That cost no attempt. No worker has taken it yet.",
			"status",
		},
		{
			"handed back after attempts", facts{Answer: requeued(report.HeaderStream, stream.Reports, report.HeaderStreamSequence, "1", report.HeaderAttempts, "2"), Pulling: 1},
			"Waiting: a worker that was stopped handed it back, after it had failed twice in this pass. No worker has taken it yet.",
			"status",
		},
		{
			"handed back with a verdict",
			facts{Answer: requeued(report.HeaderStream, stream.Reports, report.HeaderStreamSequence, "1", report.HeaderAttempts, "1", report.HeaderClass, "poison",
				report.HeaderCode, "not-found", report.HeaderReason, "404", report.HeaderFailedAt, report.FormatTime(at("06:00"))), Pulling: 1},
			"Waiting to be buried: it was judged at 06:00 UTC, and the dead-letter queue did not take it: poison (not-found), 404. No worker has taken it yet.",
			"status",
		},
		{
			"replayed",
			facts{Answer: requeued(report.HeaderReplayOf, "7", report.HeaderReplays, "2"), Pulling: 1, Events: twice},
			"Waiting: ada@office replayed it at 03:00 UTC, 4 hours ago, with fresh attempts. Replayed twice. No worker has taken it yet.",
			"status",
		},
		{
			"replayed, says the copy alone", facts{Answer: requeued(report.HeaderReplayOf, "8", report.HeaderReplays, "1"), Pulling: 1, Events: twice},
			"Waiting: it was replayed, with fresh attempts. Replayed once. No worker has taken it yet.",
			"status",
		},
		{
			"in place of another", facts{Answer: requeued(report.HeaderPublishedAt, report.FormatTime(at("06:12"))), Pulling: 1},
			"Waiting: it was put into the queue at 06:12 UTC, 1 hour ago, in place of a dead report that it corrects. No worker has taken it yet.",
			"status",
		},
		{
			"reopened",
			facts{Answer: func() Answer {
				a := requeued(report.HeaderReopened, "4")
				a.Entry = &keyvalue.Entry{State: keyvalue.Reopened, Actor: "ada@office", Reason: "a corrected file", ReopenedAt: at("06:00")}
				return a
			}(), Pulling: 1},
			"Waiting to be worked again: ada@office had it reprocessed: a corrected file. No worker has taken it yet.",
			"status",
		},
		{
			"reopened, cut short",
			facts{Answer: Answer{Fate: Waiting, Key: key, Entry: &keyvalue.Entry{
				State: keyvalue.Reopened, SiteID: "TWR-1", Actor: "ada@office", Reason: "a corrected file", ReopenedAt: at("06:00"),
			}}},
			"Waiting, but nothing is in the queue for it: ada@office reopened its result at 06:00 UTC (a corrected file), and was cut short before it was put there.",
			"`guyline reprocess SITE URI --reason R`",
		},
		{
			"parked",
			facts{Answer: requeued("Nats-Schedule", "@at 2026-11-29T08:12:00Z", report.HeaderAttempts, "1", report.HeaderStream, stream.Reports), Events: []audit.Event{failed("01:10", 3, 1)}},
			"Waiting, parked. Its last attempt failed at 01:10 UTC (connection): refused. It goes back into the queue at 08:12 UTC, in 1 hour.",
			"wait",
		},
		{
			"parked, as its upstream is down", facts{Answer: requeued("Nats-Schedule", "@at 2026-11-29T07:14:00Z", "Guyline-Stream", "REPORTS", "Guyline-Stream-Sequence", "3",
				"Guyline-Parked-Since", "2026-11-29T06:12:00Z", "Guyline-Upstream", "sftp://portal", "Guyline-Code", "connection", "Guyline-Reason", "refused")},
			"Waiting, put aside: sftp://portal is down. The report met that first at 06:12 UTC, 1 hour ago; the last that was heard of it: refused (connection). " +
				"No attempt is spent. It goes back into the queue at 07:14 UTC, in 2 minutes.",
			"guyline status",
		}, {
			"parked, and back in the queue", facts{Answer: requeued("Guyline-Stream", "REPORTS", "Guyline-Stream-Sequence", "3",
				"Guyline-Parked-Since", "2026-11-29T06:12:00Z", "Guyline-Upstream", "sftp://portal", "Guyline-Code", "connection", "Guyline-Reason", "refused")},
			"Waiting: it was put aside at 06:12 UTC while sftp://portal was down, and is to be tried again. No worker has taken it yet. No worker is asking for work: all are busy, or there is none.", "guyline run",
		}, {
			"parked, and time is up", facts{Answer: requeued("Nats-Schedule", "@at 2026-11-29T07:12:00Z")},
			"Waiting, parked. It goes back into the queue any moment.", "wait",
		},
		{
			"parked by somebody else", facts{Answer: requeued("Nats-Schedule", "@every 1h")},
			"Waiting, parked. It goes back into the queue at a time that cannot be told.", "wait",
		},
		{
			"published again while dead",
			facts{Answer: func() Answer {
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
			facts{Answer: Answer{Fate: Discarded, Key: key, Discarded: new(act(audit.Discard, "04:00"))}, Events: append(four, act(audit.Discard, "04:00"))},
			"Not landed, and given up: ada@office discarded it at 04:00 UTC, 3 hours ago. The reason: the source is back. Before that it failed 4 times and was dead once.",
			"publish",
		},
		{
			"repaired",
			facts{Answer: Answer{Fate: Discarded, Key: key, Discarded: &audit.Event{
				Time: at("04:00"), Kind: audit.Repair, Actor: "ada@office", Reason: "repaired as abc: the file moved", NewKey: "abc",
			}}},
			"Not landed, and given up for a corrected report: ada@office repaired it at 04:00 UTC, 3 hours ago. The reason: the file moved.",
			"`guyline why abc`",
		},
		{
			"never seen", facts{Answer: Answer{Fate: Unknown, Key: key}},
			"Never handed over under this site and source. A report's key is the SHA-256 of site_id:source_uri, so site and source must be exactly as they were " +
				"published: a capital letter, a space or a slash more makes another report.",
			"compare them with the list",
		},
		{
			"removed behind our back", facts{Answer: Answer{Fate: Unknown, Key: key}, Events: four},
			"No result, message or letter of it is left. The audit trail knows it: the last event is death at 01:12 UTC. " +
				"Guyline does not remove reports like that: an age limit on a stream did, or a person with other tools.",
			"publish",
		},
		{
			"never seen, or forgotten", facts{Answer: Answer{Fate: Unknown, Key: key, Forgets: 30 * 24 * time.Hour}},
			"Never handed over under this site and source, or settled before 2026-10-30 07:12 UTC: the ledger forgets a settled report after 30 days. " +
				"A report's key is the SHA-256 of site_id:source_uri, so site and source must be exactly as they were " +
				"published: a capital letter, a space or a slash more makes another report.",
			"compare them with the list",
		},
		{
			"landed after its last event, and forgotten", facts{Answer: Answer{Fate: Unknown, Key: key, Forgets: time.Hour}, Events: four},
			"No result, message or letter of it is left. The audit trail knows it: the last event is death at 01:12 UTC. " +
				"The ledger forgets a settled report after 1h0m0s: whether it landed between then and 06:12 UTC is not known.",
			"hands it over again, and it is worked again",
		},
		{
			"removed, while the ledger still knows all since", facts{Answer: Answer{Fate: Unknown, Key: key, Forgets: 24 * time.Hour}, Events: four},
			"No result, message or letter of it is left. The audit trail knows it: the last event is death at 01:12 UTC. " +
				"Guyline does not remove reports like that: an age limit on a stream did, or a person with other tools.",
			"publish",
		},
		{
			"discarded so long ago that it may have landed since",
			facts{Answer: Answer{Fate: Discarded, Key: key, Discarded: new(act(audit.Discard, "04:00")), Forgets: time.Hour}},
			"Not landed, and given up: ada@office discarded it at 04:00 UTC, 3 hours ago. The reason: the source is back. " +
				"The ledger forgets a settled report after 1h0m0s: whether it landed between then and 06:12 UTC is not known.",
			"publish",
		},
	} {
		s := tell(tt.k, now)
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
