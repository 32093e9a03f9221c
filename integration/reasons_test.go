package integration_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

func TestHostileErrorTexts(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"two\r\nGuyline-Class: forged\r\n\r\nbody":  "two Guyline-Class: forged body",
		"nul\x00esc\x1b[31mdel\x7f":                 "nul esc [31mdel",
		"emoji 📄 and ünïcödé":                       "emoji 📄 and ünïcödé",
		"not \xff\xfe UTF-8":                        "not \ufffd\ufffd UTF-8",
		"line\u2028separators\u2029and\u0085others": "line separators and others",
		"   ":                                   "",
		"":                                      "",
		"\x00":                                  "",
		strings.Repeat("2 MB of it. ", 175_000): strings.TrimRight(strings.Repeat("2 MB of it. ", 100)[:1024], " "),
		strings.Repeat("📄", 1000):               strings.Repeat("📄", 256),
		`{"reason":"forged"}`:                   `{"reason":"forged"}`,
	}
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		for text := range texts {
			if e.Key() == report.NewKey("TWR-1", fmt.Sprintf("%x", report.AuditHash("", text))) {
				if e.SiteID == "TWR-1" {
					return nil, report.Poison(report.CodeMalformedPDF, errors.New(text))
				}
			}
		}
		return nil, report.Transient(report.CodeTimeout, errors.New(strings.Repeat("x\r\n", 1<<20)))
	})
	keys := map[string]report.Key{}
	for text := range texts {
		keys[text] = w.publish("TWR-1", fmt.Sprintf("%x", report.AuditHash("", text)))
	}
	exhausted := w.publish("TWR-2", "s3://reports/a.pdf")
	w.work()
	w.drain()
	for text, want := range texts {
		w.wantDeath(w.letter(keys[text]), death{report.ClassPoison, report.CodeMalformedPDF, want, 1, 0})
	}
	if l := w.letter(exhausted); !strings.HasPrefix(l.Reason, "exhausted 4 attempts: x x x ") || len(l.Reason) > report.MaxReason {
		t.Errorf("reason of %d bytes: %.60q", len(l.Reason), l.Reason)
	}
	for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
		w.must(err)
		if !utf8.ValidString(l.Reason) || strings.ContainsFunc(l.Reason, unicode.IsControl) {
			t.Errorf("the reason of %s is not one line of UTF-8: %q", l.Key.Short(), l.Reason)
		}
	}
	w.ends(invariant.Tally{Dead: len(texts) + 1})
}

// Passwords and signatures in an error's URI are in nothing that is stored or told: not in the letter's headers, not in
// the trail, not in a copy, and not in the reason that goes to the server with the end of the message.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	errs := []error{
		report.Poison(report.CodeForbidden, errors.New("get https://ada:"+secret+"@vault.example/r.pdf?X-Signature="+secret+": forbidden")),
		report.Transient(report.CodeTimeout, errors.New(`Get "https://vault.example/r.pdf?token=`+secret+`&x=1": dial tcp: time-out`)),
		report.Poison(report.CodeForbidden, errors.New("(sftp://"+secret+"@vault.example?k="+secret+")\r\ns3://k:"+secret+"@b/o")),
		report.Poison(report.CodeForbidden, errors.New(strings.Repeat("a", 1000)+" https://ada:"+secret+"@vault.example/r.pdf?"+secret)),
	}
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SourceURI == "panic" {
			panic("dial https://ada:" + secret + "@vault.example/?" + secret)
		}
		var i int
		fmt.Sscan(e.SourceURI, &i)
		return nil, errs[i]
	})
	var keys []report.Key
	for i := range errs {
		keys = append(keys, w.publish("TWR-1", fmt.Sprint(i)))
	}
	keys = append(keys, w.publish("TWR-1", "panic"))
	terminated := make(chan string, 100)
	sub, err := w.js.Conn().Subscribe("$JS.EVENT.ADVISORY.>", func(m *nats.Msg) { terminated <- string(m.Data) })
	w.must(err)
	w.must(w.js.Conn().Flush())
	w.work()
	w.drain()
	w.stop()
	w.must(sub.Unsubscribe())
	w.must(w.js.Conn().Flush())

	wanted := regexp.MustCompile(`https://vault\.example/r\.pdf`)
	if l := w.letter(keys[0]); !wanted.MatchString(l.Reason) {
		t.Errorf("of the URI nothing is left: %q", l.Reason)
	}
	w.replay(w.letter(keys[0]), dlq.Replayed)
	seen := 0
	for _, name := range []string{dlq.Stream, audit.Stream, "REPORTS_REQUEUE"} {
		for seq := uint64(1); ; {
			m, err := jsapi.Next(t.Context(), w.js, name, ">", seq)
			if errors.Is(err, jsapi.ErrNotFound) {
				break
			}
			w.must(err)
			if all := fmt.Sprint(m.Header, string(m.Data)); strings.Contains(all, secret) {
				t.Errorf("%s %d tells the secret: %s", name, seq, all)
			}
			seq, seen = m.Sequence+1, seen+1
		}
	}
	if seen < 2*len(keys) {
		t.Errorf("only %d messages were looked at", seen)
	}
	for len(terminated) > 0 {
		if text := <-terminated; strings.Contains(text, secret) {
			t.Errorf("an advisory tells the secret: %s", text)
		}
	}
	w.work()
	w.drain()
	w.ends(invariant.Tally{Dead: len(keys)})
}

// The source URI with its secrets is the publisher's payload and stays in the body; what is made of it does not tell them.
func TestSecretsInTheSourceURI(t *testing.T) {
	t.Parallel()
	const uri = "https://ada:s3cr3t@vault.example:8443/r.pdf?sig=s3cr3t"
	w := newWorld(t, func(_ context.Context, e report.Event, _ int) (report.Result, error) {
		return nil, report.Poison(report.CodeNotFound, fmt.Errorf("%s is not there", e.SourceURI))
	})
	key := w.publish("TWR-1", uri)
	w.work()
	w.drain()
	l := w.letter(key)
	w.wantDeath(l, death{report.ClassPoison, report.CodeNotFound, "https://vault.example:8443/r.pdf is not there", 1, 0})
	if l.Upstream != "https://vault.example:8443" {
		t.Errorf("the upstream is %s", l.Upstream)
	}
	natstest.Eventually(t, "the payload", func() bool { return string(l.Body) == string(body("TWR-1", uri)) })
	w.ends(invariant.Tally{Dead: 1})
}
