package report_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/guyline/guyline/report"
)

// A list of 1,000 rows, read: what checking it costs, and reading it again to publish it.
func BenchmarkReadList(b *testing.B) {
	var csv, lines bytes.Buffer
	csv.WriteString("site_id,source_uri,due,firm,inspector\n")
	for i := range 1000 {
		uri := fmt.Sprintf("https://reports.example.com/2026/q2/%07d.pdf", i)
		fmt.Fprintf(&csv, "TWR-%d,%s,2026-12-01,Acme Tower Services,M. Okafor\n", i, uri)
		fmt.Fprintf(&lines, `{"site_id":"TWR-%d","source_uri":%q,"due":"2026-12-01","metadata":{"firm":"Acme Tower Services","inspector":"M. Okafor"}}`+"\n", i, uri)
	}
	for _, bb := range []struct {
		name string
		list []byte
	}{{"CSV", csv.Bytes()}, {"JSON", lines.Bytes()}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for row, err := range report.ReadList(bytes.NewReader(bb.list)) {
					if err != nil || row.Err != nil {
						b.Fatal(err, row.Err)
					}
					n++
				}
				if n != 1000 {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
		})
	}
}
