package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
)

// entry is the i-th entry, much like the one of a PDF with little text, as it is stored.
func (b *ledgerBench) entry(i int) []byte {
	site, uri := name(i)
	return fmt.Appendf(nil, `{"state":"done","site_id":%q,"source_uri":%q,"result":{"version":1,"site_id":%q,"pages":%d,"bytes":%d,"sha256":%q,"pdf_version":"1.4",`+
		`"producer":"LibreOffice 3.5","created":"2026-09-19T11:14:51Z","encrypted":false,"needs_ocr":false,"text_lengths":[%d],"first_page_text":%q},`+
		`"attempts":1,"worker":"worker-7/4711","commit":"REPORTS/%d/1","time":%q}`,
		site, uri, site, 1+i%40, 18_847+i, report.NewKey("file", uri), 48+i%1000, b.text, i+1, time.Now().UTC().Format(time.RFC3339Nano))
}

// message is what commits the i-th entry.
func (b *ledgerBench) message(i int) *nats.Msg {
	r := ref(i)
	return &nats.Msg{
		Subject: ledgerSubject + string(r.Site) + "." + string(r.Key), Data: b.entry(i), Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}},
	}
}

func name(i int) (site, uri string) {
	return fmt.Sprintf("TWR-%04d", i%9973), fmt.Sprintf("s3://reports/2026/%08d_q2.pdf", i)
}

func ref(i int) report.Ref {
	site, uri := name(i)
	return report.Ref{Site: report.NewToken(site), Key: report.NewKey(site, uri)}
}

// fill writes the entries by compare-and-set, many at once, as workers do. Of a large ledger only the first and the last entries are
// measured, and those between them are poured in.
func (b *ledgerBench) fill(ctx context.Context, say func(string, ...any)) (first, last Cost, entry int, err error) {
	var bytes int
	var costs []Cost
	for from := 0; from < b.cfg.Keys; from += portion {
		to := min(from+portion, b.cfg.Keys)
		write := b.create
		if from >= portions*portion && to <= b.cfg.Keys-portions*portion {
			write = b.pour
		}
		cost, err := b.costOf(func() (int, error) {
			n, err := write(ctx, from, to)
			bytes += n
			return to - from, err
		})
		if err != nil {
			return first, last, 0, err
		}
		if costs = append(costs, cost); to%1_000_000 == 0 {
			say("%d entries, %.0f a second", to, cost.Rate)
		}
	}
	if n, err := b.ledger.Len(ctx); err != nil || int(n) != b.cfg.Keys {
		return first, last, 0, errors.Join(err, fmt.Errorf("the ledger has %d entries, want %d", n, b.cfg.Keys))
	}
	return median(costs[:min(len(costs), portions)]), median(costs[max(0, len(costs)-portions):]), bytes / b.cfg.Keys, nil
}

// pour writes entries without waiting for each, which costs this process little.
func (b *ledgerBench) pour(ctx context.Context, from, to int) (bytes int, err error) {
	const bucketful = 4000 // the server drops what comes when 10,000 wait
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i := from; i < to && err == nil; i++ {
		m := b.message(i)
		bytes += len(m.Data)
		if i == to-1 || i%bucketful == 0 {
			_, err = b.js.PublishMsg(ctx, m)
		} else {
			err = b.js.Conn().PublishMsg(m)
		}
	}
	return bytes, err
}

// median is the one of the processor times, with the others' counts.
func median(costs []Cost) Cost {
	sorted := slices.SortedFunc(slices.Values(costs), func(x, y Cost) int { return cmp.Compare(x.CPU, y.CPU) })
	m := sorted[len(sorted)/2]
	m.Count = 0
	for _, c := range costs {
		m.Count += c.Count
	}
	return m
}

func (b *ledgerBench) create(ctx context.Context, from, to int) (bytes int, err error) {
	acks := make(chan jetstream.PubAckFuture, inFlight)
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for f := range acks {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				failed <- err
				for range acks {
				}
				return
			}
		}
	}()
	for i := from; i < to && ctx.Err() == nil; i++ {
		m := b.message(i)
		bytes += len(m.Data)
		f, err := b.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute))
		if err != nil {
			close(acks)
			<-failed
			return bytes, err
		}
		acks <- f
	}
	close(acks)
	return bytes, errors.Join(<-failed, ctx.Err())
}
