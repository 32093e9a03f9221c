package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// rogue is a source that commands a terminal: it sets the title, rings, colours with a one-character CSI, and turns the line round.
const rogue = "testdata/\x1b]0;owned\x07\u009b31m\u202e.pdf"

// tame fails t if a terminal would obey something in what a command has printed.
func tame(t *testing.T, what string, e ended) {
	t.Helper()
	for _, out := range []string{e.stdout, e.stderr} {
		if i := strings.IndexFunc(out, func(r rune) bool {
			return r < 0x20 && r != '\n' || r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 {
			t.Errorf("%s prints a control character: %q", what, out[i:min(len(out), i+80)])
		}
	}
}

func TestStrangersCannotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	if err := os.CopyFS(filepath.Join(s.dir, "sub"), os.DirFS("../../testdata/repaired")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "sub/twr9017_q2.pdf"), filepath.Join(s.dir, rogue)); err != nil {
		t.Fatal(err)
	}
	missing := "testdata/missing" + strings.TrimPrefix(rogue, "testdata/")
	row, err := json.Marshal(report.Event{SiteID: "TWR-3", SourceURI: rogue, Metadata: map[string]any{"x": ""}})
	if err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat("y", report.MaxMessage-len(row)-10) // in the list, but with headers too much for the queue
	s.write(t, "refused.jsonl", strings.Replace(string(row), `"x":""`, `"x":"`+pad+`"`, 1)+"\n")
	s.write(t, "bad.jsonl", "{\"site_id\":\"TWR-1\",\"source_uri\":\"a\",\"due\":\"\u009b31m\"}\n{\"\u009b\":\"\x1b\"}\n")
	for _, tt := range []struct {
		code int
		args string // separated by |
	}{
		{exitUsage, "publish|" + rogue + ".csv"},
		{exitUsage, "publish|bad.jsonl"},
		{exitUsage, "sites|import|" + rogue + ".csv"},
		{exitUsage, "\x1b[31m"},
		{exitFailed, "publish|refused.jsonl"},
		{0, "publish|--site|TWR-1|--uri|" + rogue},
		{0, "publish|--site|TWR-2|--uri|" + missing},
		{exitPerson, "run|--drain"},
		{0, "status"},
		{0, "results"},
		{0, "results|--json"},
		{0, "dlq|ls"},
		{0, "dlq|ls|--json"},
		{0, "dlq|ls|--json|--limit|1"},
		{0, "dlq|ls|--group"},
		{0, "dlq|ls|--group|--json"},
		{0, "why|TWR-1|" + rogue},
		{0, "why|TWR-2|" + missing},
		{0, "why|--json|TWR-2|" + missing},
		{exitPerson, "why|TWR-9|" + rogue},
		{0, "dlq|show|" + report.NewKey("TWR-2", missing).Short()},
		{0, "dlq|show|--json|" + report.NewKey("TWR-2", missing).Short()},
		{0, "dlq|export"},
		{0, "show|TWR-1|" + rogue},
		{exitPerson, "show|TWR-9|" + rogue},
		{0, "show|--json|TWR-1|" + rogue},
		{0, "audit|log"},
		{0, "audit|log|--json"},
		{0, "inspect|" + rogue},
		{0, "inspect|--json|" + rogue},
	} {
		tame(t, "guyline "+tt.args, s.want(t, tt.code, strings.Split(tt.args, "|")))
	}
	e := s.want(t, 0, []string{"results", "--json"})
	var line resultLine
	if err := json.Unmarshal([]byte(e.stdout), &line); err != nil || line.SourceURI != rogue {
		t.Errorf("the JSON says %q, %v", line.SourceURI, err)
	}
}

// A letter that was tampered with, and a message of a stranger in the letters' stream, are found.
func TestTampered(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	w := s.worker(t)
	key := report.NewKey("TWR-1", "testdata/reports/twr9017_q2.pdf")
	s.want(t, 0, []string{"publish", "--site", "TWR-1", "--uri", "testdata/reports/twr9017_q2.pdf"})
	natstest.Eventually(t, "the report to die", func() bool { return strings.Contains(s.do(t, "", "dlq", "ls").stdout, key.Short()) })
	s.want(t, 0, []string{"dlq", "verify"}, "1 letters are sound, 0 are not")

	nc := s.connect(t)
	get, err := nc.Request("$JS.API.DIRECT.GET.REPORTS_DLQ.reports.dlq.TWR-1."+string(key), nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	forged := nats.NewMsg("reports.dlq.TWR-1." + string(key))
	forged.Data = get.Data
	for name, values := range get.Header {
		if strings.HasPrefix(name, "Guyline-") {
			forged.Header[name] = values
		}
	}
	forged.Header.Set(report.HeaderReason, "the disk was full")
	strange := nats.NewMsg("reports.dlq.X.\x1b[31m\u009bkey")
	strange.Data = []byte("\x1b[31m")
	for _, m := range []*nats.Msg{forged, strange} {
		if ack, err := nc.RequestMsg(m, 10*time.Second); err != nil || strings.Contains(string(ack.Data), "error") {
			t.Fatalf("store %q: %v", m.Subject, err)
		}
	}
	tame(t, "verify", s.want(t, exitPerson, []string{"dlq", "verify"}, key.Short()+" TWR-1: the audit hash does not fit the reason\n", "0 letters are sound, 2 are not"))
	tame(t, "verify --json", s.want(t, exitPerson, []string{"dlq", "verify", "--json"}, `"problem":"the audit hash does not fit the reason"`))
	tame(t, "ls", s.want(t, 0, []string{"dlq", "ls"}))
	tame(t, "ls --group", s.want(t, 0, []string{"dlq", "ls", "--group"}))
	tame(t, "why", s.want(t, 0, []string{"why", key.Short()}))
	tame(t, "status", s.want(t, 0, []string{"status"}))
	tame(t, "export", s.want(t, 0, []string{"dlq", "export"}))
	tame(t, "run", w.stop(syscall.SIGINT))
}
