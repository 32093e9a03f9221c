package dlq

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// onTheWire returns a function that sends headers through the server and back.
func onTheWire(tb testing.TB) func(testing.TB, nats.Header) nats.Header {
	tb.Helper()
	nc := natstest.Start(tb).Conn(tb)
	sub, err := nc.SubscribeSync("wire")
	if err != nil {
		tb.Fatal(err)
	}
	return func(t testing.TB, h nats.Header) nats.Header {
		t.Helper()
		if err := nc.PublishMsg(&nats.Msg{Subject: "wire", Header: h, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		m, err := sub.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return m.Header
	}
}

func full() Letter {
	key := report.NewKey("NY 12.4", "s3://reports/a.pdf")
	at := time.Date(2026, 11, 29, 2, 0, 0, 123_456_789, time.UTC)
	reason := "unparseable structure in s3://reports/a.pdf – “déjà vu”"
	return Letter{
		Key: key, Site: "NY=2012=2E4", Class: report.ClassExhausted, Code: report.CodeTimeout, Reason: reason, Hash: report.AuditHash(key, reason),
		Attempts: 4, Subject: "reports.submitted.NY=2012=2E4", Source: stream.Ref{Stream: stream.Reports, Sequence: 1 << 62},
		PublishedAt: at, Due: at.Add(1), FirstFailedAt: at.Add(2), FailedAt: at.Add(3), Replays: 3, Reopened: 9, Upstream: "s3://reports",
		Worker: "host/4711", Version: "0.1.0", Dropped: 2, Foreign: nats.Header{"X-Firm": {"Åcme", "Ltd"}, "x-firm": {""}}, Body: []byte("{}"),
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	t.Parallel()
	wire := onTheWire(t)
	long := strings.Repeat("é", 200)
	for _, tt := range []struct {
		what         string
		write, reads func(*Letter)
	}{
		{"everything", func(*Letter) {}, func(*Letter) {}},
		{
			"as little as possible",
			func(l *Letter) { *l = Letter{Key: l.Key, Site: l.Site, Foreign: nats.Header{}, Body: l.Body} },
			func(*Letter) {},
		},
		{
			"our values are one line of at most 256 bytes",
			func(l *Letter) {
				l.Code, l.Worker, l.Upstream, l.Version = report.Code(long), long, "a\r\nGuyline-Key:  b", "\tc\x00d "
			},
			func(l *Letter) {
				l.Code, l.Worker, l.Upstream, l.Version = report.Code(long[:256]), long[:256], "a Guyline-Key: b", "c d"
			},
		},
		{
			"a long reason is kept whole",
			func(l *Letter) { l.Reason = report.Clean(strings.Repeat("é", 9999)) },
			func(l *Letter) {},
		},
		{
			"headers with a meaning are not the publisher's",
			func(l *Letter) {
				for _, name := range []string{"Nats-Rollup", "nats-msg-id", "Guyline-Class", "GUYLINE-REPLAYS", "Status", "description"} {
					l.Foreign[name] = []string{"all"}
				}
			},
			func(l *Letter) { l.Foreign = full().Foreign },
		},
		{
			"16 KiB of the publisher's headers fit",
			func(l *Letter) { l.Foreign = nats.Header{"X": {strings.Repeat("x", report.MaxForeignHeaders-5)}} },
			func(*Letter) {},
		},
		{
			"more are dropped and counted",
			func(l *Letter) {
				l.Foreign = nats.Header{"X": {strings.Repeat("x", report.MaxForeignHeaders-4)}, "Y": {"1", "2"}, "Nats-Z": {"z"}}
			},
			func(l *Letter) { l.Foreign, l.Dropped = nats.Header{}, 2+2 },
		},
	} {
		want, l := full(), full()
		tt.write(&l)
		tt.write(&want)
		tt.reads(&want)
		want.Sequence = 17
		got := readLetter(subject(l.Site, l.Key), 17, wire(t, l.header()), l.Body)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s:\n%s", tt.what, diff)
		}
		for name := range l.header() {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "nats-") || lower == "status" || lower == "description" {
				t.Errorf("%s: the header %s is sent", tt.what, name)
			}
		}
		if size := len(got.Reason); size > report.MaxReason || !utf8.ValidString(got.Reason) {
			t.Errorf("%s: a reason of %d bytes", tt.what, size)
		}
	}
}

// Whatever lies in the queue can be read; what is garbled is zero.
func TestReadGarbled(t *testing.T) {
	t.Parallel()
	h := nats.Header{}
	for _, name := range []string{
		report.HeaderAttempts, report.HeaderStreamSequence, report.HeaderReplays, report.HeaderReopened, report.HeadersDropped,
		report.HeaderPublishedAt, report.HeaderDue, report.HeaderFirstFailedAt, report.HeaderFailedAt,
	} {
		for _, value := range []string{"", "-1", "x", "1.5", "99999999999999999999", "+1", " ", "2026-13-01T00:00:00Z"} {
			h.Set(name, value)
			for _, subject := range []string{"reports.dlq.a.b", "reports.dlq.a", "x"} {
				got, want := readLetter(subject, 1, h, nil), Letter{Sequence: 1, Foreign: nats.Header{}}
				if subject == "reports.dlq.a.b" {
					want.Site, want.Key = "a", "b"
				}
				if !cmp.Equal(got, want) {
					t.Errorf("%s: %q: %s", name, value, cmp.Diff(want, got))
				}
			}
		}
		h.Del(name)
	}
}

func FuzzLetterHeaders(f *testing.F) {
	wire := onTheWire(f)
	f.Add("TWR-9017", "unparseable structure in s3://reports/twr9017_corrupt.pdf", "malformed-pdf", "X-Firm", "Acme", "Ltd", int64(1), uint64(2), []byte(`{"site_id":"TWR-9017"}`))
	f.Add("NY 12.4", "a\r\nGuyline-Audit-Hash: 00\r\n\r\nb", "x\x00\xff", "Guyline-Reason", "innocent", "\r\n", int64(-1), uint64(1)<<62, []byte(nil))
	f.Add("", "https://u:p@host/a?sig=1 \u2028\u0085\u00a0", "", "Nats-Rollup", "all", "sub", int64(1)<<62, uint64(0), []byte("\x00\xff"))
	f.Add("é=_", "\ufeff \xf0\x9f", "Å", "a b", ":", "\x80", int64(0), uint64(3), []byte("[]"))
	f.Add("=", " ", "status", "Status", "404", "503", int64(999_999_999), uint64(4), []byte(""))
	f.Fuzz(func(t *testing.T, site, reason, ours, name, value, second string, nanos int64, number uint64, body []byte) {
		kept, dropped := report.Foreign(nats.Header{name: {value, second}, "X-" + name: {second}})
		site = report.Cut(site, report.MaxSiteID)
		key, line := report.NewKey(site, reason), report.Line(ours, report.MaxHeaderValue)
		at := time.Unix(0, nanos).UTC()
		want := Letter{
			Sequence: 17, Key: key, Site: report.NewToken(site), Class: report.Class(line), Code: report.Code(line), Reason: report.Clean(reason),
			Attempts: int(number >> 40), Subject: line, Source: stream.Ref{Stream: line, Sequence: number >> 1}, PublishedAt: at, Due: at, FirstFailedAt: at, FailedAt: at,
			Replays: int(number >> 1), Reopened: number >> 1, Upstream: line, Worker: line, Version: line, Dropped: dropped, Body: body,
		}
		want.Hash = report.AuditHash(key, want.Reason)
		if len(kept) > 0 {
			want.Foreign = wire(t, kept) // as the publisher's own message had it
		}
		got := readLetter(subject(want.Site, key), 17, wire(t, want.header()), body)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if got.Hash != report.AuditHash(got.Key, got.Reason) || got.SiteID() != site {
			t.Fatalf("site %q, hash %s of %q", got.SiteID(), got.Hash, got.Reason)
		}
	})
}
