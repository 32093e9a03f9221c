package stream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/stream"
)

func BenchmarkRead(b *testing.B) {
	const body = `{"site_id": "TWR-8842", "source_uri": "s3://reports/2026/q2/twr8842_q2.pdf", "due": "2026-12-01T00:00:00Z", ` +
		`"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "kind": "annual"`
	stored := time.Now()
	for name, body := range map[string]string{"typical": body + `}`, "metadata": body + `, "metadata": {"firm": "Acme Rigging", "county": "Kern"}}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			header := nats.Header{"Nats-Msg-Id": {"x"}}
			for b.Loop() {
				m := stream.Read(stream.Ref{Stream: stream.Reports, Sequence: 1}, "reports.submitted.TWR-8842", header, []byte(body), stored)
				if m.Invalid != nil {
					b.Fatal(m.Invalid)
				}
			}
		})
	}
}
