package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/guyline/guyline/report"
)

// The golden values of the wire format: changing one strands every stored report.
func TestGoldenValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ what, got, want string }{
		{"key", string(report.NewKey("TWR-8842", "s3://reports/twr8842_q2.pdf")), "628af88ec6063856538a44dc429f07467fd5dfb9d48e67174f25151e6c0b0024"},
		{"key", string(report.NewKey("TWR-9017", "s3://reports/twr9017_corrupt.pdf")), "068af75aea2cbf541cbd61bafac909cbdd1a6ba75eed155147faeaf0533f5899"},
		{"audit hash", report.AuditHash("068af75aea2cbf541cbd61bafac909cbdd1a6ba75eed155147faeaf0533f5899",
			"unparseable structure in s3://reports/twr9017_corrupt.pdf"), "b9e1641245f003ca3b2210291c519d2a85e199fe79a48dc9293c3de4a631f6fa"},
		{"token", string(report.NewToken("NY 12.4")), "NY=2012=2E4"},
		{"token", string(report.NewToken("é_=")), "=C3=A9_=3D"},
		{"token", string(report.NewToken("")), "="},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.what, tt.got, tt.want)
		}
	}
}

// A result is checked and written as encoding/json would.
func FuzzResult(f *testing.F) {
	for _, s := range []string{` {"pages": 12}`, `{"a":"<\u2028>","a":"\ud83d"}`, "{\"a\":\"\u2028\xff\"}", `[1]`, `{"a":01}`, ``, `{"a":[{},{"b":[]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := report.Result(text)
		object := json.Valid(text) && bytes.TrimLeft(text, " \t\r\n")[0] == '{' && len(text) <= report.MaxResult
		if err := r.Check(); text != nil && (err == nil) != object {
			t.Fatalf("Check(%q) = %v", text, err)
		}
		want, wantErr := json.Marshal(r)
		got, err := r.AppendTo([]byte("x"))
		if (err == nil) != (wantErr == nil) || string(got) != "x"+string(want) {
			t.Fatalf("%q: got %q, %v, want %q, %v", text, got, err, want, wantErr)
		}
	})
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"TWR-8842", "NY 12.4", "é", "_", "=", ":", "", "=41", "*", ">", "a.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := report.NewToken(s)
		if strings.Trim(string(token), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-=") != "" || token == "" {
			t.Fatalf("%q is not fit for a subject", token)
		}
		if back, err := token.Site(); err != nil || back != s {
			t.Fatalf("%q -> %q -> %q, %v", s, token, back, err)
		}
		if site, err := report.Token(s).Site(); err == nil && string(report.NewToken(site)) != s {
			t.Fatalf("token %q was accepted, but is written %q", s, report.NewToken(site))
		}
	})
}

func TestClean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"unparseable structure in s3://reports/twr9017_corrupt.pdf", "unparseable structure in s3://reports/twr9017_corrupt.pdf"},
		{"  a\r\nb\x00\tc\u2028d  ", "a b c d"},
		{"bad \xff byte", "bad \ufffd byte"},
		{`Get "https://u:p@h/x?sig=s": refused`, `Get "https://h/x": refused`},
		{"sftp://u:p@portal/a@b.pdf, then", "sftp://portal/a@b.pdf, then"},
		{"x https://h?q=1&u=a@b)", "x https://h)"},
		{`{"at":"https://h/v1","next":"https://u:p@i/x"}`, `{"at":"https://h/v1","next":"https://i/x"}`},
		{"https://h/https://u:p@i/x?sig=s, s3://u:p@j", "https://h/https://i/x, s3://j"},
		{"https://u:a@p@h/x,ftp://u:p@i@k?sig=s", "https://h/x,ftp://k"},
		{`{"url":"https:\/\/u:p@h\/x?sig=s"}`, `{"url":"https:\/\/h\/x"}`},
		{`see "C:\a@b" and mailto:a@b of 12:30`, `see "C:\a@b" and mailto:a@b of 12:30`},
		{"x https://u:" + strings.Repeat("p", 20<<10) + "@h/x", "x"}, // the end is not looked at
		{strings.Repeat("é", 600), strings.Repeat("é", 512)},
		{strings.Repeat("x", 1023) + " y", strings.Repeat("x", 1023)},
	} {
		if got := report.Clean(tt.in); got != tt.want {
			t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// A stranger cannot turn a shown line round.
// No spelling of a source_uri shows its password, its token or its query; what has none stays as it is.
func TestRedactSource(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for uri, want := range map[string]string{
		"https://u:s3cret@h.example/a.pdf?sig=s3cret": "https://h.example/a.pdf",
		"https://s3cret@h/a.pdf":                      "https://h/a.pdf",
		"https://u:s3 cret s3cret@h/a b.pdf":          "https://h/a b.pdf",
		"https://u:s3cret\n@h/a.pdf":                  "https://h/a.pdf",
		"https://u:s3cret/x@h/a.pdf":                  "https://h/a.pdf",
		"https://u:s3cret?x@h/a.pdf":                  "https://",
		"https://u:s3cret#x@h/a.pdf":                  "https://h/a.pdf",
		"https://u:a@s3cret@h:8443/a.pdf":             "https://h:8443/a.pdf",
		"https://[::1]:8443/a@b.pdf":                  "https://[::1]:8443/a@b.pdf",
		"https:/u:s3cret@h/a.pdf":                     "https:/h/a.pdf",
		"https:///u:s3cret@h/a.pdf":                   "https:///h/a.pdf",
		`https:\\u:s3cret@h/a.pdf`:                    `https:\\h/a.pdf`,
		"s3://key:s3cret@bucket/a b.pdf":              "s3://bucket/a b.pdf",
		"file://u:s3cret@h/a.pdf":                     "file://h/a.pdf",
		"sftp://h/a.pdf?pass=s3cret more":             "sftp://h/a.pdf",
		"https://h/go?to=https://u:s3cret@i/":         "https://h/go",
		"https://h/@joe/a.pdf":                        "https://h/@joe/a.pdf",
		"file:///joe@example.pdf":                     "file:///joe@example.pdf",
		`C:\reports\joe@example.pdf`:                  `C:\reports\joe@example.pdf`,
		"reports/TWR-1: q2?.pdf":                      "reports/TWR-1: q2?.pdf",
		"":                                            "",
	} {
		if got := report.RedactSource(uri); got != want || strings.Contains(got, secret) {
			t.Errorf("%q is shown as %q, want %q", uri, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                "",
		"q2\u202efdp.exe": "q2 fdp.exe",
		"\u061ca\u200e\u200fb\u202a\u202cc\u2066d\u2069": "a b c d",
		"\u05d3\u05d5\u05d7 2":                           "\u05d3\u05d5\u05d7 2", // what is written from right to left stays
		"a\r\nb\x00\u2028c\xff":                          "a b c\ufffd",
		"123456789 0123":                                 "123456789",
	} {
		if got := report.Line(in, 10); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\r\n\x00\xff 😀 https://u:p@h/x?y#z \u2028")
	f.Fuzz(func(t *testing.T, s string) {
		got := report.Clean(s)
		if len(got) > report.MaxReason || !utf8.ValidString(got) || strings.TrimSpace(got) != got || strings.ContainsAny(got, "\r\n\t\x00") {
			t.Fatalf("%q is not clean", got)
		}
		if again := report.Clean(got); again != got {
			t.Fatalf("%q becomes %q on cleaning again", got, again)
		}
	})
}

func TestClassify(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, tt := range []struct {
		err  error
		kind report.Kind
		code report.Code
	}{
		{cause, report.KindPoison, report.CodeUnclassified},
		{io.ErrUnexpectedEOF, report.KindPoison, report.CodeUnclassified},
		{&net.DNSError{IsNotFound: true}, report.KindPoison, report.CodeUnclassified},
		{context.Canceled, report.KindPoison, report.CodeUnclassified},
		{report.Transient("Not A Code", cause), report.KindTransient, report.CodeUnclassified},
		{context.DeadlineExceeded, report.KindTransient, report.CodeTimeout},
		{&net.OpError{Err: syscall.ECONNREFUSED}, report.KindTransient, report.CodeConnection},
		{&net.DNSError{IsTemporary: true}, report.KindTransient, report.CodeConnection},
		{fmt.Errorf("fetch: %w", report.Transient(report.CodeThrottled, cause)), report.KindTransient, report.CodeThrottled},
		{report.Poison("tower-leans", context.DeadlineExceeded), report.KindPoison, "tower-leans"},
		{report.Hold(report.CodeForbidden, cause), report.KindHold, report.CodeForbidden},
	} {
		if got := report.Classify(tt.err); got.Kind != tt.kind || got.Code != tt.code {
			t.Errorf("Classify(%v) = %v %s, want %v %s", tt.err, got.Kind, got.Code, tt.kind, tt.code)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := report.Backoff{Base: 400 * time.Millisecond, Max: 5 * time.Minute, Jitter: 250 * time.Millisecond}
	none := func() float64 { return 0 }
	half := func() float64 { return 0.5 }
	for _, tt := range []struct {
		n      int
		asked  time.Duration
		random func() float64
		want   time.Duration
	}{
		{1, 0, none, 400 * time.Millisecond},
		{2, 0, none, 800 * time.Millisecond},
		{3, 0, half, 1725 * time.Millisecond},
		{40, 0, none, 5 * time.Minute},
		{1 << 30, 0, half, 5*time.Minute + 125*time.Millisecond},
		{1, time.Minute, half, time.Minute + 125*time.Millisecond},
		{1, 24 * time.Hour, none, 5 * time.Minute},
		{2, -time.Hour, none, 800 * time.Millisecond},
	} {
		if got := b.Delay(tt.n, tt.asked, tt.random); got != tt.want {
			t.Errorf("Delay(%d, %v) = %v, want %v", tt.n, tt.asked, got, tt.want)
		}
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		r    report.Result
		want report.Code
	}{
		{report.Result(`{"x":"` + strings.Repeat("y", 64<<10) + `"}`), report.CodeResultTooLarge},
		{report.Result(`[1]`), report.CodeInvalidResult},
		{report.Result(``), report.CodeInvalidResult},
		{report.Result(`{"x":`), report.CodeInvalidResult},
		{report.Result(`{}{}`), report.CodeInvalidResult},
		{report.Result(`{"x":` + strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990) + `}`), report.CodeInvalidResult},
		{report.Result(`{"x":` + strings.Repeat("[", 9_989) + strings.Repeat("]", 9_989) + `}`), ""},
		{nil, ""},
		{report.Result(` {"pages": 12}`), ""},
	} {
		err := tt.r.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || report.Classify(err).Code != tt.want) {
			t.Errorf("Check(%.20q) = %v, want %q", []byte(tt.r), err, tt.want)
		}
		event := slices.Concat([]byte(`{"settled":{"result":`), tt.r, []byte(`}}`)) // what the trail keeps when it is reopened
		if tt.want == "" && tt.r != nil && !json.Valid(event) {
			t.Errorf("%.20q cannot be read again", event)
		}
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	kept, dropped := report.Foreign(map[string][]string{
		"Nats-Rollup": {"all"}, "NATS-TTL": {"1"}, "guyline-attempts": {"99"}, "Status": {"503"}, "description": {"x"},
		"bad name": {"x"}, "": {"x"}, "X/Y": {"x"}, "X:": {"x"}, "Größe": {"x"}, "X[]": {"x"}, "X-Firm": {"Acme", "Zenith"},
	})
	if diff := cmp.Diff(map[string][]string{"X-Firm": {"Acme", "Zenith"}}, kept); diff != "" || dropped != 0 {
		t.Errorf("dropped %d, kept (-want +got)\n%s", dropped, diff)
	}
	kept, dropped = report.Foreign(map[string][]string{"A": {strings.Repeat("x", 16<<10)}, "B": {"y"}})
	if len(kept) != 0 || dropped != 2 {
		t.Errorf("over the budget: kept %d, dropped %d, want 0 and 2", len(kept), dropped)
	}
}
