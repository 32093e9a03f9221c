package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// dead is a letter of a report that died this many hours ago.
func dead(site string, hours int, change func(*dlq.Letter)) dlq.Letter {
	l := dlq.Letter{
		Key: report.NewKey(site, "sftp://portal/a.pdf"), Site: report.NewToken(site), Class: report.ClassExhausted, Code: report.CodeConnection,
		Reason: "exhausted 4 attempts: fetch sftp://portal/a.pdf: refused", Attempts: 4, Upstream: "sftp://portal", Worker: "host/1",
		FailedAt: time.Now().Add(-time.Duration(hours) * time.Hour).UTC(), Source: stream.Ref{Stream: stream.Reports, Sequence: 1},
		Body: fmt.Appendf(nil, `{"site_id":%q,"source_uri":"sftp://portal/a.pdf"}`, site),
	}
	change(&l)
	l.Hash = report.AuditHash(l.Key, l.Reason)
	return l
}

// bury makes the shop's store, with these letters in it, and holds it until t ends, so that commands need not open it.
func (s *shop) bury(t testing.TB, letters ...dlq.Letter) {
	t.Helper()
	ctx := context.Background()
	store, err := embedded.Open(ctx, embedded.Config{Dir: s.dir + "/guyline-data", Create: true, Listen: true, LazySync: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	nc, err := store.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := consumer.DefaultConfig().Queues
	if err := consumer.Setup(ctx, js, cfg); err != nil {
		t.Fatal(err)
	}
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	q := dlq.New(js, stream.New(js, cfg), ledger, audit.New(js), dlq.DefaultReplayMax)
	for _, l := range letters {
		if _, err := q.Put(ctx, l, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// What there is to find among the dead: by urgency, by every filter, and by cause.
func TestFindLetters(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	now := time.Now().UTC()
	long := strings.Repeat("é", 500)
	s.bury(t,
		dead("LATE", 1, func(l *dlq.Letter) { l.Due = now.Add(-time.Hour) }),
		dead("NONE-NEW", 2, func(l *dlq.Letter) {
			l.Class, l.Code, l.Upstream, l.Reason = report.ClassPoison, report.CodeNotFound, "file", "read q2.pdf: "+long
		}),
		dead("NONE-OLD", 300, func(l *dlq.Letter) { l.Replays = 5 }),
		dead("WEEK", 3, func(l *dlq.Letter) { l.Due, l.Replays = now.Add(7*24*time.Hour), 2 }),
		dead("SOON", 4, func(l *dlq.Letter) {
			l.Due, l.Reason = now.Add(time.Hour), "exhausted 4 attempts: fetch sftp://portal/77.pdf: refused"
		}),
	)
	for _, tt := range []struct {
		args string
		want string // sites, in order
	}{
		{"", "LATE SOON WEEK NONE-OLD NONE-NEW"},
		{"--limit 2", "LATE SOON"},
		{"--limit 4 --class exhausted", "LATE SOON WEEK NONE-OLD"},
		{"--since 270m --until 150m --code connection --upstream sftp://portal/", "SOON WEEK"},
		{"--due-within 2h", "LATE SOON"},
		{`--replays 1 --match a\.pdf`, "WEEK NONE-OLD"},
	} {
		args := append([]string{"dlq", "ls"}, strings.Fields(tt.args)...)
		var text, lines []string
		for i, row := range strings.Split(strings.TrimSpace(s.want(t, 0, args).stdout), "\n") {
			if cells := strings.Fields(row); i > 0 {
				text = append(text, cells[1])
			}
			if !utf8.ValidString(row) || len(row) > 300 {
				t.Errorf("a row of %d bytes: %q", len(row), row)
			}
		}
		for row := range strings.Lines(s.want(t, 0, append(args, "--json")).stdout) {
			var l struct {
				SiteID  string          `json:"site_id"`
				Event   json.RawMessage `json:"event"`
				Payload *string         `json:"payload"`
			}
			if err := json.Unmarshal([]byte(row), &l); err != nil || l.Event != nil || l.Payload != nil {
				t.Errorf("%v, payload %v in %s", err, l.Payload, row)
			}
			lines = append(lines, l.SiteID)
		}
		if got := strings.Join(text, " "); got != tt.want {
			t.Errorf("dlq ls %s: got %s, want %s", tt.args, got, tt.want)
		}
		if strings.Contains(tt.args, "--limit") && strings.Join(lines, " ") != tt.want || len(lines) != len(strings.Fields(tt.want)) {
			t.Errorf("dlq ls %s --json: got %v, want %s", tt.args, lines, tt.want)
		}
	}
	s.want(t, 0, []string{"dlq", "ls", "--site", "nowhere"}, "no dead letter matches\n")
	s.want(t, 0, []string{"dlq", "ls", "--group", "--site", "nowhere"}, "no dead letter matches\n")
	s.want(t, 0, []string{"dlq", "ls", "--quarantined"}, "NONE-OLD exhausted connection 4 5 ", "[quarantined] exhausted 4 attempts")
	s.want(t, 0, []string{"dlq", "ls", "--quarantined", "--json"}, `"quarantined":true}`)
	if e := s.want(t, 0, []string{"dlq", "ls", "--json", "--site", "WEEK"}); strings.Contains(e.stdout, "quarantined") {
		t.Errorf("not quarantined: %s", e.stdout)
	}
	key := report.NewKey("NONE-OLD", "sftp://portal/a.pdf")
	s.want(t, 0, []string{"dlq", "show", key.Short()}, "replays 5 quarantined")
	s.want(t, 0, []string{"why", key.Short()}, "Replayed 5 times: it is quarantined", "Next: ", "--force`.\n")
	s.want(t, 0, []string{"why", "NONE-OLD", "sftp://portal/a.pdf"}, "Replayed 5 times: it is quarantined", "\nsource sftp://portal/a.pdf\n")
	if e := s.want(t, 0, []string{"dlq", "ls", "--limit", "2"}); !strings.Contains(e.stderr, "2 of 5 are shown") {
		t.Errorf("stderr: %s", e.stderr)
	}

	s.want(t, 0, []string{"dlq", "ls", "--group"}, "\n4 exhausted connection sftp://portal ", " fetch <uri>: refused\n", "\n1 poison not-found file ", " read <path>: éé")
	s.want(t, 0, []string{"dlq", "ls", "--group", "--limit", "1"}, "\n4 exhausted connection ", "\n1 others\n")
	s.want(t, 0, []string{"dlq", "ls", "--group", "--limit", "1", "--json"}, `"reason":"fetch <uri>: refused","count":4,`, "\n"+`{"others":1}`+"\n")
	s.want(t, 0, []string{"dlq", "ls", "--group", "--due-within", "2h"}, "\n2 exhausted connection ")

	e := s.want(t, 0, []string{"status"}, "dead 5 1 poison, 4 exhausted\nquarantined 1 of the dead", "\n2 of the dead are due within 24h, or overdue:\n")
	if late, soon := strings.Index(e.stdout, "LATE"), strings.Index(e.stdout, "SOON"); late < 0 || late > soon || strings.Contains(e.stdout, "WEEK") || strings.Contains(e.stdout, "all of them") {
		t.Errorf("status:\n%s", e.stdout)
	}
	var c fate.Counts
	e = s.want(t, 0, []string{"status", "--json"})
	if err := json.Unmarshal([]byte(e.stdout), &c); err != nil || c.Quarantined != 1 || c.DueSoon != 2 || len(c.Soonest) != 2 || c.Soonest[0].SiteID != "LATE" {
		t.Errorf("status --json: %v, %s", err, e.stdout)
	}
	for within, want := range map[string]int{"0": 0, "30m": 1, "2000h": 3} {
		s.env = []string{"GUYLINE_DUE_WARN=" + within}
		var c fate.Counts
		if e := s.want(t, 0, []string{"status", "--json"}); json.Unmarshal([]byte(e.stdout), &c) != nil || c.DueSoon != uint64(want) || len(c.Soonest) != want {
			t.Errorf("due within %s: %s", within, e.stdout)
		}
	}
}

func TestNothingToFind(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.bury(t)
	s.want(t, 0, []string{"dlq", "ls"}, "no dead letter\n")
	s.want(t, 0, []string{"dlq", "ls", "--group"}, "no dead letter\n")
	s.want(t, 0, []string{"dlq", "ls", "--class", "poison"}, "no dead letter matches\n")
	for _, args := range []string{"dlq ls --json", "dlq ls --group --json", "dlq ls --json --limit 3", "dlq export"} {
		if e := s.want(t, 0, strings.Fields(args)); e.stdout != "" {
			t.Errorf("%s prints %q", args, e.stdout)
		}
	}
	if e := s.want(t, 0, []string{"status"}, "dead 0\n"); strings.Contains(e.stdout, "due") || strings.Contains(e.stdout, "quarantined") {
		t.Errorf("status:\n%s", e.stdout)
	}
	s.want(t, exitPerson, []string{"why", "TWR-1", "a.pdf"}, "Never handed over under this site and source.", "\nkey "+string(report.NewKey("TWR-1", "a.pdf"))+"\n")
	s.want(t, exitPerson, []string{"why", "--json", "TWR-1", "a.pdf"}, `{"fate":"unknown",`, `"events":[]`)
}

// A row fits the terminal, but is never without a part of the reason.
func TestRowsFit(t *testing.T) {
	t.Parallel()
	l := dead("TWR-1", 1, func(l *dlq.Letter) { l.Reason = strings.Repeat("ü ", 600) })
	for width, want := range map[int]int{1 << 10: 0, 150: 150, lsNarrow: lsNarrow, lsNarrow - 1: 138, 100: 100, 80: 80, 79: 79, 40: 59 + minLsReason} {
		row, head := lsRow(l, false, width), lsHead(width)
		if n := utf8.RuneCountInString(row); n != want && width < 1<<10 || !utf8.ValidString(row) || len(row) > 250 {
			t.Errorf("in a width of %d a row has %d characters, want %d: %q", width, n, want, row)
		}
		if strings.Index(head, "REASON") != strings.Index(row, "ü") || !strings.Contains(row, l.Key.Short()) || !strings.Contains(row, "TWR-1") {
			t.Errorf("in a width of %d:\n%s\n%s", width, head, row)
		}
	}
	for d, want := range map[time.Duration]string{24 * time.Hour: "24h", 90 * time.Minute: "1h30m", time.Minute: "1m", 1500 * time.Millisecond: "1.5s", 10 * time.Hour: "10h"} {
		if got := span(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}
