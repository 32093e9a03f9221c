package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// poisonOf is the script in which reports of the site BAD are poison and all others are done.
func poisonOf(_ context.Context, e report.Event, _ int) (report.Result, error) {
	if e.SiteID == "BAD" {
		return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
	}
	return nil, nil
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"site_id":"TWR-1","source_uri":"deep","x":` + strings.Repeat(`[`, levels-1) + strings.Repeat(`]`, levels-1) + `}`
	}
	w := newWorld(t, succeed)
	for _, tt := range []struct {
		name, body string
		code       report.Code
	}{
		{"no JSON", `site TWR-1, report a.pdf`, report.CodeUndecodable},
		{"cut off", `{"site_id":"TWR-1","source_`, report.CodeUndecodable},
		{"repeated name", `{"site_id":"TWR-1","source_uri":"a","source_uri":"b"}`, report.CodeUndecodable},
		{"repeated name inside", `{"site_id":"TWR-1","source_uri":"a","metadata":{"x":1,"x":2}}`, report.CodeUndecodable},
		{"empty", ``, report.CodeUndecodable},
		{"NUL", "\x00", report.CodeUndecodable},
		{"not UTF-8", "{\"site_id\":\"TWR-1\",\"source_uri\":\"\xff\"}", report.CodeUndecodable},
		{"half a surrogate pair", `{"site_id":"TWR-1","source_uri":"\ud800"}`, report.CodeUndecodable},
		{"two objects", `{"site_id":"TWR-1","source_uri":"a"}{"site_id":"TWR-2","source_uri":"b"}`, report.CodeUndecodable},
		{"too deep", nested(65), report.CodeUndecodable},
		{"hundreds of thousands deep", nested(400_000), report.CodeUndecodable},
		{"colon in the site", `{"site_id":"TWR:1","source_uri":"a"}`, report.CodeInvalidEvent},
		{"line feed in the site", `{"site_id":"TWR\n1","source_uri":"a"}`, report.CodeInvalidEvent},
		{"no site", `{"source_uri":"a"}`, report.CodeInvalidEvent},
		{"other case", `{"SITE_ID":"TWR-1","source_uri":"a"}`, report.CodeInvalidEvent},
		{"long URI", `{"site_id":"TWR-1","source_uri":"` + strings.Repeat("a", 2049) + `"}`, report.CodeInvalidEvent},
		{"wrong type", `{"site_id":["TWR-1"],"source_uri":"a"}`, report.CodeInvalidEvent},
	} {
		key := w.raw("TWR-1", nil, []byte(tt.body))
		if want := report.UndecodableKey([]byte(tt.body)); key != want {
			t.Errorf("%s: key %s, want %s", tt.name, key, want)
		}
		defer func() {
			l := w.letter(key)
			if l.Class != report.ClassPoison || l.Code != tt.code || l.Attempts != 0 || l.Site != report.NoSite || l.SiteID() != "" {
				t.Errorf("%s: died of %s %s after %d attempts, site token %q", tt.name, l.Class, l.Code, l.Attempts, l.Site)
			}
			if string(l.Body) != tt.body {
				t.Errorf("%s: the letter's payload is not the one that was published", tt.name)
			}
			w.wantRuns(key, 0)
		}()
	}
	deepest := w.raw("TWR-1", nil, []byte(nested(64)))
	neighbour := w.publish("TWR-1", "s3://reports/neighbour.pdf")
	w.work()
	w.drain()
	w.wantRuns(deepest, 1)
	w.wantRuns(neighbour, 1)
	w.ends(invariant.Tally{Done: 2, Dead: 17})
}

func TestHostileSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, _ report.Event, run int) (report.Result, error) {
		if run == 1 {
			return nil, report.Poison(report.CodeNotFound, errors.New("no such object"))
		}
		return nil, nil
	})
	sites := []string{
		"NY 12.4", "Été-7", "a_b", "a=b", "=", "=41", "📡", "*", ">", "$JS.API", "-", "a/b\\c", "𝔘𝔫", "ñ", "n\u0303",
		strings.Repeat("📡", 32), strings.Repeat(".", 128), "site'; DROP TABLE", "<script>", "%2e", `"`,
	}
	keys := map[string]report.Key{}
	for _, site := range sites {
		keys[site] = w.publish(site, "s3://reports/a.pdf")
	}
	w.work()
	w.drain()
	for _, site := range sites {
		l := w.letter(keys[site])
		subject := report.Cut("reports.submitted."+string(report.NewToken(site)), report.MaxHeaderValue)
		if l.SiteID() != site || l.Site != report.NewToken(site) || l.Subject != subject {
			t.Errorf("site %q: the letter says %q, token %q, from %s", site, l.SiteID(), l.Site, l.Subject)
		}
		found := 0
		for l, err := range w.letters.List(t.Context(), dlq.Filter{Site: site}) {
			if w.must(err); l.Key == keys[site] {
				found++
			}
		}
		if found != 1 {
			t.Errorf("site %q: the list of its letters has %d of it", site, found)
		}
		w.replay(l, dlq.Replayed)
	}
	w.drain()
	for _, site := range sites {
		if e := w.entry(keys[site]); e.SiteID != site {
			t.Errorf("site %q: the ledger says %q", site, e.SiteID)
		}
	}
	w.ends(invariant.Tally{Done: len(sites)})
}

// The publisher's subject names one site and the body another.
func TestTheBodysSiteWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, poisonOf)
	done := w.raw("BAD", nil, body("TWR-1", "s3://reports/a.pdf"))
	dead := w.raw("TWR-1", nil, body("BAD", "s3://reports/a.pdf"))
	_, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "reports.submitted.several.tokens", Data: body("TWR-2", "s3://reports/a.pdf")})
	w.must(err)
	several := w.record(body("TWR-2", "s3://reports/a.pdf"))
	w.work()
	w.drain()
	for key, site := range map[report.Key]string{done: "TWR-1", several: "TWR-2"} {
		if e, err := w.ledger.LookupLeader(t.Context(), report.NewToken(site), key); err != nil || e.SiteID != site {
			t.Errorf("ledger entry of %s: %q, %v", site, e.SiteID, err)
		}
	}
	if l := w.letter(dead); l.SiteID() != "BAD" || l.Subject != "reports.submitted.TWR-1" {
		t.Errorf("the letter says site %s, subject %s", l.SiteID(), l.Subject)
	}
	w.ends(invariant.Tally{Done: 2, Dead: 1})
}

// A body of 950 KiB, and the largest message that the queue takes, go through every station.
func TestBigBodies(t *testing.T) {
	t.Parallel()
	sized := func(site string, size int) []byte {
		b := fmt.Appendf(nil, `{"site_id":%q,"source_uri":"%d","ignored":"`, site, size)
		return append(append(b, bytes.Repeat([]byte("x"), size-len(b)-2)...), `"}`...)
	}
	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
		if e.SiteID == "BAD" && run == 1 {
			return nil, report.Poison(report.CodeMalformedPDF, errors.New(strings.Repeat("very malformed ", 1000)))
		}
		return nil, nil
	})
	const most = report.MaxMessage
	done := w.raw("TWR-1", nil, sized("TWR-1", 950<<10))
	payload := sized("BAD", most)
	dead := w.raw("BAD", nil, payload)
	over := sized("TWR-1", most+1)
	e, err := report.Decode(over)
	w.must(err)
	if _, err := stream.Publish(t.Context(), w.js, e, over); !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("a message of %d bytes: %v, want %v", len(over), err, stream.ErrTooLarge)
	}
	w.work()
	w.drain()
	w.wantRuns(done, 1)
	l := w.letter(dead)
	if !bytes.Equal(l.Body, payload) {
		t.Errorf("the letter's payload of %d bytes is not the one of %d that was published", len(l.Body), len(payload))
	}
	w.replay(l, dlq.Replayed)
	w.drain()
	w.wantRuns(dead, 2)
	w.ends(invariant.Tally{Done: 2})
}
