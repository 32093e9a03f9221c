package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// LedgerConfig says how large a ledger to measure.
type LedgerConfig struct {
	Keys    int // entries
	Lookups int // entries that are asked for, in each way
	Text    int // bytes of text in each result, on top of some 550 bytes
}

// Validate says what is wrong.
func (c LedgerConfig) Validate() error {
	switch {
	case c.Keys < 1000 || c.Keys > 100_000_000:
		return fmt.Errorf("%d keys, allowed: 1000 to 100000000", c.Keys)
	case c.Lookups < together || c.Lookups > 10_000_000:
		return fmt.Errorf("%d look-ups, allowed: %d to 10000000", c.Lookups, together)
	case c.Text < 0 || c.Text > 32<<10:
		return fmt.Errorf("%d bytes of text, allowed: 0 to 32768", c.Text)
	}
	return nil
}

const (
	portion  = 25_000 // entries between two looks at the processor time while the ledger is filled
	together = 256    // entries in a request
	portions = 8      // of which the median counts, at either end
	inFlight = 2_000  // commits that are not answered yet
	alone    = 64     // requests for one entry each that are open at once
	longest  = 20 * time.Second
)

// LedgerReport is what a ledger costs at its size.
type LedgerReport struct {
	Keys    int            `json:"keys"`
	Entry   int            `json:"entry_bytes"` // of an entry as it is stored, without its key, on average
	First   Cost           `json:"create_first"`
	Last    Cost           `json:"create_last"`
	Empty   int64          `json:"rss_empty"` // of the server before the first entry, and of this process if the server is in it
	Filled  int64          `json:"rss_filled"`
	Read    int64          `json:"rss_read"` // after the look-ups
	Disk    int64          `json:"disk"`
	Lookups []LedgerLookup `json:"lookups"`
	Stopped *Recovery      `json:"restart_stopped,omitempty"` // only of a server process of its own
	Killed  *Recovery      `json:"restart_killed,omitempty"`
}

// Cost is what some operations took.
type Cost struct {
	Count  int     `json:"count"`
	Rate   float64 `json:"per_second"`
	CPU    float64 `json:"cpu_per_100k"` // seconds, this process's and the server's
	Median float64 `json:"median_ms"`    // of a request
	Most   float64 `json:"longest_ms"`
}

// LedgerLookup is what one way to ask for entries took.
type LedgerLookup struct {
	Way string `json:"way"`
	Cost
}

// Recovery is how a server comes back.
type Recovery struct {
	Seconds float64 `json:"seconds"` // until it answers for an entry
	RSS     int64   `json:"rss"`
	Keys    int     `json:"keys"` // that it still has
}

// ledgerBench is a ledger that is being measured.
type ledgerBench struct {
	cfg    LedgerConfig
	place  *Place
	js     jetstream.JetStream
	ledger *keyvalue.Ledger
	random *rand.Rand
	text   string // of the first page
}

// Ledger fills a ledger with entries like the ones that workers write, and measures what it costs at that size: memory, disk, commits,
// look-ups of every kind, and restarts. The server must be ours, its ledger empty; it stays filled. say is told what happens.
func Ledger(ctx context.Context, place *Place, cfg LedgerConfig, say func(format string, args ...any)) (r LedgerReport, err error) {
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	if place.cfg.Mode == Given {
		return r, errors.New("the ledger of a given server is not filled")
	}
	b, closeAll, err := openLedger(ctx, place, cfg)
	if err != nil {
		return r, err
	}
	defer closeAll()
	r.Keys = cfg.Keys
	if r.Empty, err = place.serverRSS(); err != nil {
		return r, err
	}
	say("filling the ledger with %d entries", cfg.Keys)
	if r.First, r.Last, r.Entry, err = b.fill(ctx, say); err != nil {
		return r, err
	}
	if r.Filled, err = place.serverRSS(); err != nil {
		return r, err
	}
	if r.Disk, err = sizeOf(place.Dir()); err != nil {
		return r, err
	}
	for _, w := range b.ways() {
		say("look-ups: %s", w.name)
		cost, err := b.measure(ctx, w)
		if err != nil {
			return r, fmt.Errorf("look-ups, %s: %w", w.name, err)
		}
		r.Lookups = append(r.Lookups, LedgerLookup{w.name, cost})
	}
	if r.Read, err = place.serverRSS(); err != nil {
		return r, err
	}
	if place.cfg.Mode != Separate {
		return r, nil
	}
	say("restarting the server")
	if r.Stopped, err = b.recover(ctx, place.Stop); err != nil {
		return r, err
	}
	say("killing the server")
	r.Killed, err = b.recover(ctx, place.Kill)
	return r, err
}

func openLedger(ctx context.Context, place *Place, cfg LedgerConfig) (b *ledgerBench, closeAll func(), err error) {
	nc, err := place.Connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(inFlight))
	if err != nil {
		return nil, nil, err
	}
	if err := keyvalue.Setup(ctx, js, 1); err != nil {
		return nil, nil, err
	}
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		return nil, nil, err
	}
	if n, err := ledger.Len(ctx); err != nil || n > 0 {
		return nil, nil, errors.Join(err, fmt.Errorf("the ledger has %d entries; measure with an empty one", n))
	}
	return &ledgerBench{cfg, place, js, ledger, rand.New(rand.NewPCG(1, 2)), strings.Repeat("no defect found. ", 4+cfg.Text/17)[:48+cfg.Text]}, nc.Close, nil
}

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
		Subject: "$KV.reports_ledger." + string(r.Site) + "." + string(r.Key), Data: b.entry(i), Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}},
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

// way is a way to ask for entries: which ones, and whether one by one.
type way struct {
	name  string
	known bool
	next  func(n int) []int // n numbers of entries
	alone bool
}

func (b *ledgerBench) ways() []way {
	keys := b.cfg.Keys
	among := func(from, to int) func(int) []int {
		return func(n int) []int {
			some := make([]int, n)
			for i := range some {
				some[i] = from + b.random.IntN(max(1, to-from))
			}
			return some
		}
	}
	at := keys / 7
	inOrder := func(n int) []int {
		some := make([]int, n)
		for i := range some {
			some[i] = at % keys
			at++
		}
		return some
	}
	old := keys / 3
	return []way{
		{"unknown", false, among(keys, 10*keys), false},
		{"newest 1,000", true, among(keys-1000, keys), false},
		{"old, in the order of the commits", true, inOrder, false},
		{"old, 100,000 neighbours shuffled", true, among(old, min(keys, old+100_000)), false},
		{"old, any, for the first time", true, among(0, keys), false},
		{"old, any, again", true, among(0, keys), false},
		{"unknown, one by one", false, among(keys, 10*keys), true},
		{"newest 1,000, one by one", true, among(keys-1000, keys), true},
		{"old, any, one by one", true, among(0, keys), true},
	}
}

// measure asks for entries in one way, at most for some seconds.
func (b *ledgerBench) measure(ctx context.Context, w way) (Cost, error) {
	var took []time.Duration
	end := time.Now().Add(longest)
	cost, err := b.costOf(func() (n int, err error) {
		for n < b.cfg.Lookups && time.Now().Before(end) && err == nil {
			some := w.next(together)
			var spent []time.Duration
			if spent, err = b.ask(ctx, w, some); err == nil {
				took, n = append(took, spent...), n+len(some)
			}
		}
		return n, err
	})
	slices.Sort(took)
	if len(took) > 0 {
		cost.Median, cost.Most = milliseconds(took[len(took)/2]), milliseconds(took[len(took)-1])
	}
	return cost, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *ledgerBench) ask(ctx context.Context, w way, some []int) ([]time.Duration, error) {
	refs := make([]report.Ref, len(some))
	distinct := map[int]bool{}
	for i, n := range some {
		refs[i] = ref(n)
		distinct[n] = true
	}
	if w.alone {
		return b.askAlone(ctx, w, refs)
	}
	began := time.Now()
	found, err := b.ledger.LookupMany(ctx, refs)
	want := 0
	if w.known {
		want = len(distinct)
	}
	if err == nil && len(found) != want {
		err = fmt.Errorf("%d of %d entries were found", len(found), want)
	}
	return []time.Duration{time.Since(began)}, err
}

func (b *ledgerBench) askAlone(ctx context.Context, w way, refs []report.Ref) ([]time.Duration, error) {
	took := make([]time.Duration, len(refs))
	errs := make([]error, len(refs))
	var next atomic.Int64
	var all sync.WaitGroup
	for range alone {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(refs) {
					return
				}
				began := time.Now()
				_, err := b.ledger.Lookup(ctx, refs[i].Site, refs[i].Key)
				if took[i] = time.Since(began); !w.known && errors.Is(err, keyvalue.ErrNotFound) {
					err = nil
				}
				errs[i] = err
			}
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// costOf measures what do takes. It says how often it did it.
func (b *ledgerBench) costOf(do func() (int, error)) (Cost, error) {
	before, cpuErr := b.place.CPU()
	began := time.Now()
	n, err := do()
	took := time.Since(began)
	after, err2 := b.place.CPU()
	if err != nil || n == 0 {
		return Cost{}, err
	}
	c := Cost{Count: n, Rate: float64(n) / took.Seconds(), CPU: (after - before).Seconds() * 100_000 / float64(n)}
	if errors.Join(cpuErr, err2) != nil { // unknown
		c.CPU = 0
	}
	return c, nil
}

// recover ends the server, starts it again and waits until it answers for the oldest and the newest entry.
func (b *ledgerBench) recover(ctx context.Context, end func() error) (*Recovery, error) {
	if err := end(); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.place.Restart(ctx); err != nil {
		return nil, err
	}
	for _, i := range []int{0, b.cfg.Keys - 1} {
		r := ref(i)
		for {
			_, err := b.ledger.LookupLeader(ctx, r.Site, r.Key)
			if err == nil {
				break
			}
			if errors.Is(err, keyvalue.ErrNotFound) || ctx.Err() != nil || time.Since(began) > patience {
				return nil, fmt.Errorf("after a restart: entry %d: %w", i, err)
			}
		}
	}
	took := time.Since(began)
	rss, err := b.place.serverRSS()
	if err != nil {
		return nil, err
	}
	n, err := b.ledger.Len(ctx)
	if err == nil && int(n) != b.cfg.Keys {
		err = fmt.Errorf("after a restart: %d entries, want %d", n, b.cfg.Keys)
	}
	return &Recovery{took.Seconds(), rss, int(n)}, err
}

// serverRSS is the memory of the process that the server is in; 0 if that is not to be had.
func (p *Place) serverRSS() (int64, error) {
	client, server, err := p.RSS()
	switch {
	case errors.Is(err, ErrUnknown):
		return 0, nil
	case p.cfg.Mode == Embedded:
		return client, err
	}
	return server, err
}

// sizeOf is how many bytes the files below a directory have.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // the server has removed it
			return nil
		}
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
