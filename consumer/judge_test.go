package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const max = 4
	var (
		backoff   = report.Backoff{Base: time.Second, Max: 10 * time.Second, Jitter: 2 * time.Second}
		half      = func() float64 { return 0.5 } // one second of jitter
		cause     = errors.New("boom")
		transient = report.Transient(report.CodeTimeout, cause)
	)
	for _, tt := range []struct {
		name string
		err  error
		n    int
		want judgement
	}{
		{"result", nil, 1, judgement{step: commit}},
		{"result of the last attempt", nil, 4, judgement{step: commit}},
		{"cut", errCut, 1, judgement{step: handBack}},
		{"cut, wrapped, in the last attempt", fmt.Errorf("x: %w", errCut), 4, judgement{step: handBack}},
		{"poison", report.Poison(report.CodeNotAPDF, cause), 1,
			judgement{step: bury, class: report.ClassPoison, code: report.CodeNotAPDF, reason: "boom"}},
		{"poison in the last attempt", report.Poison(report.CodeNotAPDF, cause), 4,
			judgement{step: bury, class: report.ClassPoison, code: report.CodeNotAPDF, reason: "boom"}},
		{"without a kind", cause, 1, judgement{step: bury, class: report.ClassPoison, code: report.CodeUnclassified, reason: "boom"}},
		{"code that is none", report.Poison("Not A Code", cause), 1,
			judgement{step: bury, class: report.ClassPoison, code: report.CodeUnclassified, reason: "boom"}},
		{"time-out without a kind", fmt.Errorf("get: %w", context.DeadlineExceeded), 1,
			judgement{step: retry, delay: 2 * time.Second, code: report.CodeTimeout, reason: "get: context deadline exceeded"}},
		{"first attempt", transient, 1, judgement{step: retry, delay: 2 * time.Second, code: report.CodeTimeout, reason: "boom"}},
		{"second attempt", transient, 2, judgement{step: retry, delay: 3 * time.Second, code: report.CodeTimeout, reason: "boom"}},
		{"third attempt", transient, 3, judgement{step: retry, delay: 5 * time.Second, code: report.CodeTimeout, reason: "boom"}},
		{"last attempt", transient, 4,
			judgement{step: bury, class: report.ClassExhausted, code: report.CodeTimeout, reason: "exhausted 4 attempts: boom"}},
		{"beyond the last attempt", transient, 5,
			judgement{step: bury, class: report.ClassExhausted, code: report.CodeTimeout, reason: "exhausted 5 attempts: boom"}},
		{"delay asked for", report.RetryAfter(7*time.Second, report.CodeThrottled, cause), 1,
			judgement{step: retry, delay: 8 * time.Second, code: report.CodeThrottled, reason: "boom"}},
		{"delay asked for is capped", report.RetryAfter(time.Hour, report.CodeThrottled, cause), 1,
			judgement{step: retry, delay: 11 * time.Second, code: report.CodeThrottled, reason: "boom"}},
		{"delay asked for in the last attempt", report.RetryAfter(time.Second, report.CodeThrottled, cause), 4,
			judgement{step: bury, class: report.ClassExhausted, code: report.CodeThrottled, reason: "exhausted 4 attempts: boom"}},
		{"hold takes the longest delay", report.Hold(report.CodeForbidden, cause), 1,
			judgement{step: retry, delay: 11 * time.Second, code: report.CodeForbidden, reason: "boom", held: true}},
		{"hold in the last attempt", report.Hold(report.CodeForbidden, cause), 4,
			judgement{step: bury, class: report.ClassExhausted, code: report.CodeForbidden, reason: "exhausted 4 attempts: boom", held: true}},
		{"the outermost kind decides", report.Poison(report.CodeEncrypted, transient), 1,
			judgement{step: bury, class: report.ClassPoison, code: report.CodeEncrypted, reason: "boom"}},
		{"dirty text", report.Transient(report.CodeConnection, errors.New("a\r\nb\x00 \xff https://u:p@h/x?sig=1 ")), 4,
			judgement{step: bury, class: report.ClassExhausted, code: report.CodeConnection, reason: "exhausted 4 attempts: a b \ufffd https://h/x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := judge(tt.err, tt.n, max, false, backoff, half)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(judgement{})); diff != "" {
				t.Errorf("judge (-want +got):\n%s", diff)
			}
			if clean := report.Clean(got.reason); clean != got.reason {
				t.Errorf("the reason %q is not clean", got.reason)
			}
		})
	}
}

// What says that the upstream is down is parked at any attempt, if the report can be; everything else is judged as ever.
func TestJudgeAside(t *testing.T) {
	t.Parallel()
	cause := errors.New("boom")
	for _, err := range []error{
		report.Transient(report.CodeConnection, cause), report.Transient(report.CodeTimeout, cause), report.RetryAfter(time.Hour, report.CodeThrottled, cause),
		report.Transient(report.CodeServerError, cause), report.Hold(report.CodeUnauthorized, cause), context.DeadlineExceeded,
	} {
		for n := 1; n <= 5; n++ {
			if j := judge(err, n, 4, true, quick().Backoff, func() float64 { return 0 }); j.step != park || j.code == "" || j.reason == "" {
				t.Errorf("%v at attempt %d: %+v", err, n, j)
			}
		}
	}
	for _, err := range []error{
		nil, errCut, cause, report.Poison(report.CodeTimeout, cause), report.Transient(report.CodeNotFound, cause), report.Transient(report.CodeShortRead, cause),
	} {
		for n := 1; n <= 5; n++ {
			random := func() float64 { return 0 }
			if diff := cmp.Diff(judge(err, n, 4, false, quick().Backoff, random), judge(err, n, 4, true, quick().Backoff, random), cmp.AllowUnexported(judgement{})); diff != "" {
				t.Errorf("%v at attempt %d: %s", err, n, diff)
			}
		}
	}
}

// However long an error's text is, the reason fits a header and is cut at a rune.
func TestJudgeHugeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\u00e9", 1<<19), strings.Repeat("https://h/?q ", 1<<15)} {
		for n := 1; n <= 4; n++ {
			for _, err := range []error{report.Transient(report.CodeTimeout, errors.New(text)), errors.New(text)} {
				j := judge(err, n, 4, false, quick().Backoff, func() float64 { return 0 })
				if len(j.reason) > report.MaxReason || len(j.reason) < report.MaxReason/2 || !utf8.ValidString(j.reason) || report.Clean(j.reason) != j.reason {
					t.Errorf("attempt %d: a reason of %d bytes, beginning %.40q", n, len(j.reason), j.reason)
				}
				if j.class == report.ClassExhausted && !strings.HasPrefix(j.reason, "exhausted 4 attempts: ") {
					t.Errorf("reason %.40q", j.reason)
				}
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	at := time.Now()
	undecodable := stream.Read(stream.Ref{}, "", nil, []byte(`{"site_id":"A"} trailing`), at)
	invalid := stream.Read(stream.Ref{}, "", nil, []byte(`{"site_id":"A:B","source_uri":"s3://x"}`), at)
	unknown := stream.Message{Event: report.Event{SiteID: "TWR-1"}}
	for name, tt := range map[string]struct{ got, want stream.Verdict }{
		"undecodable": {unreadable(undecodable, at), stream.Verdict{Class: report.ClassPoison, Code: report.CodeUndecodable,
			Reason: "undecodable event: something follows the JSON object", FailedAt: at}},
		"invalid": {unreadable(invalid, at), stream.Verdict{Class: report.ClassPoison, Code: report.CodeInvalidEvent,
			Reason: `invalid event: site_id "A:B" contains ':'`, FailedAt: at}},
		"unknown site": {unknownSite(unknown, at), stream.Verdict{Class: report.ClassPoison, Code: report.CodeUnknownSite,
			Reason: "site TWR-1 is not in the registry", FailedAt: at}},
		"abandoned, alone": {abandoned(4, audit.Pass{Alone: []string{"a/1", "b/2"}}, at), stream.Verdict{Class: report.ClassAbandoned, Code: report.CodeAbandoned, FailedAt: at,
			Reason: "abandoned: 4 of 4 deliveries ended without a verdict, as if the worker had died; tried alone by a/1, b/2"}},
		"abandoned after failures": {abandoned(4, audit.Pass{Failed: 3}, at), stream.Verdict{Class: report.ClassAbandoned, Code: report.CodeAbandoned, FailedAt: at,
			Reason: "abandoned: 1 of 4 deliveries ended without a verdict, as if the worker had died"}},
		"abandoned": {abandoned(4, audit.Pass{}, at), stream.Verdict{Class: report.ClassAbandoned, Code: report.CodeAbandoned, FailedAt: at,
			Reason: "abandoned: 4 of 4 deliveries ended without a verdict, as if the worker had died"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
