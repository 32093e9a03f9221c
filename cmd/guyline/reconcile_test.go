package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// The morning after testdata/overnight.csv, with a few rows more.
func TestReconcile(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = []string{"TMPDIR=" + s.dir}
	list := "site_id,source_uri,due\n" +
		"TWR-8842,testdata/reports/twr8842_q2.pdf,2001-01-01\n" + // done, too late
		"TWR-9017,testdata/reports/twr9017_q2.pdf,2001-01-02\n" + // dead, and late
		"TWR-9017,testdata/reports/twr9017_q2.pdf,2001-01-02\n" +
		"TWR:1,x.pdf,\n" +
		"TWR-1,never.pdf,2999-01-01\n" +
		"TWR-2,ftp://u:secret@host/queued.pdf?sig=secret,2998-01-01\n" +
		"TWR-2,no deadline.pdf,\n"
	s.write(t, "list.csv", list)
	if e := s.want(t, exitUsage, []string{"reconcile", "list.csv"}); !strings.Contains(e.stderr, "no store at ./guyline-data") {
		t.Errorf("without a store: %s", e.stderr)
	}
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "testdata/overnight.csv"}, "done 7\n", "dead-lettered 4\n")
	s.want(t, exitPerson, []string{"reconcile", "testdata/overnight.csv"},
		"11 reports of testdata/overnight.csv at ", "\nline 13 repeats line 2 and is not counted again\n", "\ndone 7 settled\n", "\nwaiting 0 ", "\ndead 4 ",
		"\nDEAD CLASS CODE NEXT DUE FOR EXAMPLE\n", "\n1 poison malformed-pdf 2026-12-01 00:00:00 f481833d27b6 TWR-9017: ", "\nNEXT\n", "dead: `guyline dlq show KEY`")
	for _, args := range [][]string{
		{"--site", "TWR-2", "--uri", "ftp://u:secret@host/queued.pdf?sig=secret"}, {"--site", "TWR-2", "--uri", "no deadline.pdf"},
	} {
		s.want(t, 0, append([]string{"publish"}, args...), "accepted 1\n")
	}

	e := s.want(t, exitPerson, []string{"reconcile", "list.csv"},
		"5 reports of list.csv", "\nline 4 repeats line 3 and is not counted again\n", "\ndone 1 settled; 1 after the deadline\n", "\nwaiting 2 ", "\ndead 1 ",
		"\ndiscarded 0 ", "\nunknown 1 ", "\nwrong rows 1 ", "\nUNKNOWN\nline 6: TWR-1 never.pdf\n",
		"\nDEADLINES 1 report is overdue, the first since 2001-01-02 23:59:59; 0 more are due within 24 hours\n",
		"unknown: compare site and source", "`guyline publish list.csv`")
	if want := "list.csv: line 5: invalid event: site_id \"TWR:1\" contains ':'\n"; e.stderr != want {
		t.Errorf("stderr is %q, want %q", e.stderr, want)
	}
	e = s.want(t, exitPerson, []string{"reconcile", "--due", "list.csv"}, "2001-01-02 23:59:59 ", "2998-01-01 23:59:59 ", " waiting 7 ", " TWR-2 ftp://host/queued.pdf\n")
	if strings.Count(e.stdout, "\n") != 4 || strings.Index(e.stdout, "2001-") > strings.Index(e.stdout, "2998-") || strings.Contains(e.stdout, "secret") {
		t.Errorf("reconcile --due:\n%s", e.stdout)
	}
	if e := s.do(t, list, "reconcile", "-", "--json"); e.code != exitPerson || !strings.HasSuffix(e.stderr,
		"5 reports: 1 done, 2 waiting, 1 dead, 0 discarded, 1 unknown; 1 rows repeat another, 1 rows are wrong, 0 reports moved meanwhile\n") {
		t.Errorf("exit %d: %s", e.code, e.stderr)
	} else {
		wantRows(t, e.stdout)
	}
	e = s.want(t, exitPerson, []string{"reconcile", "--due", "--json", "list.csv"}, `{"line":3,`, `{"line":4,`, `{"line":6,`, `{"line":7,`)
	if strings.Count(e.stdout, "\n") != 4 {
		t.Errorf("reconcile --due --json:\n%s", e.stdout)
	}
	for rows, want := range map[string]string{
		"TWR-2,never.pdf,2998-01-01\n":                                             "\nDEADLINES  no report is overdue; the first of those not done is due ",
		"TWR-2,never.pdf," + time.Now().Add(time.Hour).Format(time.RFC3339) + "\n": "\nDEADLINES  no report is overdue; 1 report is due within 24 hours and not done, the first ",
	} {
		e := s.do(t, "site_id,source_uri,due\n"+rows, "reconcile", "-")
		if e.code != exitPerson || !strings.HasPrefix(e.stdout, "1 report of standard input at ") || !strings.Contains(e.stdout, want) {
			t.Errorf("exit %d, no %q in\n%s%s", e.code, want, e.stdout, e.stderr)
		}
	}
	if e := s.do(t, "site_id,source_uri\nTWR-8842,testdata/reports/twr8842_q2.pdf\n", "reconcile", "-"); e.code != 0 ||
		!strings.Contains(e.stdout, "\nall done; there is nothing to do\n") || e.stderr != "" {
		t.Errorf("all done: exit %d\n%s%s", e.code, e.stdout, e.stderr)
	}
	s.write(t, "done.csv", "site_id,source_uri,due\nTWR-8842,testdata/reports/twr8842_q2.pdf,2001-01-01\n")
	s.want(t, 0, []string{"reconcile", "--due", "done.csv"}, "no report with a deadline is left to do\n")
}

// wantRows checks the JSON lines of the list above.
func wantRows(t *testing.T, stdout string) {
	t.Helper()
	var got []rowLine
	for line := range strings.Lines(stdout) {
		var r rowLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if r.Settled.IsZero() == (r.Fate == fate.Done) || r.Died.IsZero() == (r.Fate == fate.Dead) || r.Fate == fate.Dead && r.Reason == "" {
			t.Errorf("line %d: %s", r.Line, line)
		}
		r.Settled, r.Died, r.Reason = time.Time{}, time.Time{}, ""
		got = append(got, r)
	}
	of := func(line int, site, uri string, f fate.Fate, due string) rowLine {
		r := rowLine{Line: line, SiteID: site, SourceURI: uri, Key: report.NewKey(site, uri), Fate: f}
		if due != "" {
			r.Due, _ = report.ParseDue(due)
			r.Missed = strings.HasPrefix(due, "2001")
		}
		return r
	}
	dead := of(3, "TWR-9017", "testdata/reports/twr9017_q2.pdf", fate.Dead, "2001-01-02")
	dead.Class, dead.Code = report.ClassPoison, report.CodeMalformedPDF
	twice := dead
	twice.Line, twice.Repeats = 4, 3
	want := []rowLine{
		of(2, "TWR-8842", "testdata/reports/twr8842_q2.pdf", fate.Done, "2001-01-01"), dead, twice,
		{Line: 5, Error: "line 5: invalid event: site_id \"TWR:1\" contains ':'"},
		of(6, "TWR-1", "never.pdf", fate.Unknown, "2999-01-01"),
		of(7, "TWR-2", "ftp://u:secret@host/queued.pdf?sig=secret", fate.Waiting, "2998-01-01"),
		of(8, "TWR-2", "no deadline.pdf", fate.Waiting, ""),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestReconcileWrongInput(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(t, "empty.csv", "")
	s.write(t, "header.csv", "site_id,source_uri\n")
	s.write(t, "bad.csv", "site_id,source_uri\nTWR:1,a.pdf\n")
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"})
	for args, want := range map[string]string{
		"reconcile":                          "the form is `guyline reconcile {FILE|-}`; arguments given: 0 (see `guyline reconcile --help`)",
		"reconcile a.csv b.csv":              "see `guyline reconcile --help`",
		"reconcile nowhere.csv":              "nowhere.csv: no such file",
		"reconcile empty.csv":                "the list is empty",
		"reconcile header.csv":               "there is no report in header.csv",
		"reconcile bad.csv":                  "there is no report in bad.csv",
		"reconcile testdata/reports":         "read the list",
		"reconcile --skip-bad bad.csv":       "unknown flag: --skip-bad",
		"reconcile --due=soon header.csv":    "see `guyline reconcile --help`",
		"reconcile testdata/overnight.csv x": "see `guyline reconcile --help`",
	} {
		if e := s.want(t, exitUsage, strings.Fields(args)); !strings.Contains(e.stderr, want) || e.stdout != "" {
			t.Errorf("%s: %s%s", args, e.stdout, e.stderr)
		}
	}
}

// What strangers wrote into lists, letters and the trail is shown, and cannot command the terminal.
func TestReconcileOfStrangers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	s := newShop(t, "GUYLINE_NATS_URL="+server.URL())
	s.want(t, 0, []string{"setup"})
	letters := dlq.New(server.JetStream(t), nil, nil, nil, dlq.DefaultReplayMax)
	trail := audit.New(server.JetStream(t))
	const evil = "\x1b]0;owned\x07 \u009b31m evil"
	var list strings.Builder
	for i, site := range []string{"DEAD", "GIVEN-UP", "GARBLED", "NEVER"} {
		body, err := json.Marshal(report.Event{SiteID: site, SourceURI: rogue, Due: time.Unix(int64(i), 0)})
		check(t, err)
		list.Write(append(body, '\n'))
	}
	list.WriteString("{\"\u009b\":\"\x1b\"}\n")
	s.write(t, "list.jsonl", list.String())
	ref := func(site string) report.Ref { return report.Event{SiteID: site, SourceURI: rogue}.Ref() }
	_, err := letters.Put(t.Context(), dlq.Letter{Key: ref("DEAD").Key, Site: "DEAD", Class: evil, Code: evil, Reason: evil, Body: []byte("x")}, 0)
	check(t, err)
	check(t, trail.Append(t.Context(), audit.Event{Kind: audit.Discard, Key: ref("GIVEN-UP").Key, SiteID: "GIVEN-UP", Actor: evil, Reason: evil}))
	garble(t, server.JetStream(t), ref("GARBLED"))
	for _, args := range []string{"reconcile list.jsonl", "reconcile --due list.jsonl", "reconcile --json list.jsonl"} {
		tame(t, args, s.want(t, exitPerson, strings.Fields(args), "DEAD", "NEVER"))
	}
	s.want(t, exitPerson, []string{"reconcile", "list.jsonl"}, "\ndead 1 ", "\ndiscarded 1 ", "\nunknown 2 ", " evil\n", ": the ledger holds something that is not an entry: ")
}

func garble(t *testing.T, js jetstream.JetStream, ref report.Ref) {
	t.Helper()
	_, err := js.Publish(t.Context(), "$KV.reports_ledger."+string(ref.Site)+"."+string(ref.Key), []byte("\x1b["))
	check(t, err)
}

// Many more repeats, unknown rows and causes than a person wants to read.
func TestReconcileIsShort(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, 0, []string{"publish", "--site", "TWR-1", "--uri", "a.pdf"})
	var list strings.Builder
	list.WriteString("site_id,source_uri\nTWR-1,a.pdf\n" + strings.Repeat("TWR-1,a.pdf\n", 1001))
	for i := range 1002 {
		list.WriteString("TWR-2," + strings.Repeat("n", i+1) + "\n")
	}
	s.write(t, "a list.csv", list.String())
	e := s.want(t, exitPerson, []string{"reconcile", "a list.csv"}, "1,003 reports of a list.csv", "... and so do 998 more lines\n", "\nunknown 1,002 ",
		"... and 997 more: --json lists them\n", "`guyline publish LIST`", "waiting: `guyline status`")
	if n := strings.Count(e.stdout, "\n"); n > 30 {
		t.Errorf("%d lines:\n%s", n, e.stdout)
	}
	e = s.want(t, exitPerson, []string{"reconcile", "--json", "a list.csv"}, `"repeats_line":2`)
	if n := strings.Count(e.stdout, "\n"); n != 2004 {
		t.Errorf("%d JSON lines, want 2004", n)
	}
}
