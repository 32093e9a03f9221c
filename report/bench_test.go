package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

// events are bodies as publishers send them, and the largest of two kinds.
var events = []struct {
	name string
	body []byte
}{
	{"typical", []byte(typical + `}`)},
	{"metadata", []byte(typical + `, "metadata": {"firm": "Acme Rigging", "county": "Kern", "height_ft": 312.5, "climb": ["a", "b"]}}`)},
	{"escaped", []byte(strings.ReplaceAll(typical, "TWR-8842", `S\u00e3o \"Paulo\"`) + `}`)},
	{"largest-one-string", []byte(typical + `, "note": "` + strings.Repeat("x", report.MaxMessage-len(typical)-13) + `"}`)},
	{"largest-names", []byte(typical + `, "metadata": {` + manyNames(60_000) + `}}`)},
}

const typical = `{"site_id": "TWR-8842", "source_uri": "s3://reports/2026/q2/twr8842_q2.pdf", "due": "2026-12-01T00:00:00Z", ` +
	`"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "kind": "annual"`

func manyNames(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"%05d":%d`, i, i)
	}
	return strings.Join(members, ",")
}

func BenchmarkDecode(b *testing.B) {
	for _, e := range events {
		b.Run(e.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(e.body)))
			for b.Loop() {
				if _, err := report.Decode(e.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		report.NewKey("TWR-8842", "s3://reports/2026/q2/twr8842_q2.pdf")
	}
}

func BenchmarkToken(b *testing.B) {
	for _, site := range []string{"TWR-8842", "NY 12.4"} {
		b.Run(site, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report.NewToken(site)
			}
		})
	}
}

func BenchmarkResultCheck(b *testing.B) {
	for name, r := range map[string]report.Result{
		"200-bytes": report.Result(`{"pages":12,"bytes":48211,"pdf":"1.7","title":"Annual inspection of tower 8842","producer":"Acme Reports 4.2",` +
			`"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`),
		"64-KiB": report.Result(`{"text":"` + strings.Repeat("All guy wires are within tolerance. ", 1800) + `"}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(r)))
			for b.Loop() {
				if err := r.Check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLine(b *testing.B) {
	for name, s := range map[string]string{"host": "https://portal.example.com", "other-letters": "S\u00e3o Paulo, torre 12"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report.Line(s, report.MaxHeaderValue)
			}
		})
	}
}

func BenchmarkClean(b *testing.B) {
	for name, s := range map[string]string{
		"no-URI":   "exhausted 4 attempts: the file ends in the middle of page 12",
		"with-URI": "Get \"https://u:p@portal.example.com/r/twr8842_q2.pdf?sig=x\": context deadline exceeded",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report.Clean(s)
			}
		})
	}
}
