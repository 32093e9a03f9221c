package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/keyvalue"
)

// LedgerConfig says how large a ledger to measure.
type LedgerConfig struct {
	Place   Config // not a given server: the ledger stays filled
	Keys    int    // entries, 1,000 to 100,000,000
	Lookups int    // entries that are asked for, in each way, 256 to 10,000,000
	Text    int    // bytes of text in each result, on top of some 550 bytes; up to 32 KiB
	Version string // of the program
}

// Validate checks the settings.
func (c LedgerConfig) Validate() error {
	switch {
	case c.Place.Mode == Given:
		return errors.New("the ledger of a given server is not filled")
	case c.Keys < 1000 || c.Keys > 100_000_000:
		return fmt.Errorf("%d keys, allowed: 1000 to 100000000", c.Keys)
	case c.Lookups < together || c.Lookups > 10_000_000:
		return fmt.Errorf("%d look-ups, allowed: %d to 10000000", c.Lookups, together)
	case c.Text < 0 || c.Text > 32<<10:
		return fmt.Errorf("%d bytes of text, allowed: 0 to 32768", c.Text)
	}
	return c.Place.Validate()
}

const (
	portion  = 25_000 // entries between two looks at the processor time while the ledger is filled
	together = 256    // entries in a request
	portions = 8      // of which the median counts, at either end
	inFlight = 2_000  // commits that are not answered yet
	alone    = 64     // requests for one entry each that are open at once
	longest  = 20 * time.Second
)

// LedgerResult is what a ledger costs at its size. What is unknown is missing in JSON.
type LedgerResult struct {
	Settings Settings       `json:"settings"`
	Keys     int            `json:"keys"`
	Entry    int            `json:"entry_bytes"` // of an entry as it is stored, without its key, on average
	First    Cost           `json:"create_first"`
	Last     Cost           `json:"create_last"`
	Empty    int64          `json:"empty_rss_bytes,omitempty"` // of the server before the first entry, and of this process if the server is in it
	Filled   int64          `json:"filled_rss_bytes,omitempty"`
	Read     int64          `json:"read_rss_bytes,omitempty"` // after the look-ups
	Disk     int64          `json:"disk_bytes"`
	Lookups  []LedgerLookup `json:"lookups"`
	Stopped  *Recovery      `json:"restart_stopped,omitempty"` // only of a server process of its own
	Killed   *Recovery      `json:"restart_killed,omitempty"`
}

// Cost is what some operations took.
type Cost struct {
	Count  int     `json:"count"`
	Rate   float64 `json:"per_second"`
	CPU    float64 `json:"cpu_s_per_100k,omitempty"` // this process's and the server's
	Median float64 `json:"p50_ms,omitempty"`         // of a request for entries
	Most   float64 `json:"max_ms,omitempty"`
}

// LedgerLookup is what one way to ask for entries took.
type LedgerLookup struct {
	Way string `json:"way"`
	Cost
}

// Recovery is how a server comes back.
type Recovery struct {
	Seconds float64 `json:"seconds"` // until it answers for an entry
	RSS     int64   `json:"rss_bytes,omitempty"`
	Keys    int     `json:"keys"` // that it still has
}

// ledgerBench is a ledger that is being measured.
type ledgerBench struct {
	cfg    LedgerConfig
	place  *place
	js     jetstream.JetStream
	ledger *keyvalue.Ledger
	random *rand.Rand
	text   string // of the first page
}

// Ledger fills a ledger with entries like the ones that workers write, and measures what it costs at that size: memory, disk, commits,
// look-ups of every kind, and restarts. A store that is there already must have an empty ledger; it stays filled. say is told what happens.
func Ledger(ctx context.Context, cfg LedgerConfig, say func(format string, args ...any)) (_ *LedgerResult, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	place, err := openPlace(ctx, cfg.Place)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	b, closeAll, err := openLedger(ctx, place, cfg)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	r := &LedgerResult{Settings: newSettings(cfg.Version, cfg.Place, 0), Keys: cfg.Keys}
	r.Settings.Server, r.Settings.LoadBefore = b.js.Conn().ConnectedServerVersion(), loadNow()
	err = b.measureAll(ctx, r, say)
	r.Settings.LoadAfter = loadNow()
	return r, err
}

// measureAll takes one measurement after the other.
func (b *ledgerBench) measureAll(ctx context.Context, r *LedgerResult, say func(format string, args ...any)) (err error) {
	if r.Empty, err = b.place.serverRSS(); err != nil {
		return err
	}
	say("filling the ledger with %d entries", r.Keys)
	if r.First, r.Last, r.Entry, err = b.fill(ctx, say); err != nil {
		return err
	}
	if r.Filled, err = b.place.serverRSS(); err != nil {
		return err
	}
	if r.Disk, err = sizeOf(b.place.dir); err != nil {
		return err
	}
	for _, w := range b.ways() {
		say("look-ups: %s", w.name)
		cost, err := b.measure(ctx, w)
		if err != nil {
			return fmt.Errorf("look-ups, %s: %w", w.name, err)
		}
		r.Lookups = append(r.Lookups, LedgerLookup{w.name, cost})
	}
	if r.Read, err = b.place.serverRSS(); err != nil {
		return err
	}
	if b.cfg.Place.Mode != Separate {
		return nil
	}
	say("restarting the server")
	if r.Stopped, err = b.recover(ctx, b.place.stop); err != nil {
		return err
	}
	say("killing the server")
	r.Killed, err = b.recover(ctx, b.place.kill)
	return err
}

func openLedger(ctx context.Context, place *place, cfg LedgerConfig) (b *ledgerBench, closeAll func(), err error) {
	nc, err := place.connect(nats.RetryOnFailedConnect(true))
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

// costOf measures what do takes. It says how often it did it.
func (b *ledgerBench) costOf(do func() (int, error)) (Cost, error) {
	before, cpuErr := b.place.cpu()
	began := time.Now()
	n, err := do()
	took := time.Since(began)
	after, err2 := b.place.cpu()
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
	if err := b.place.restart(ctx); err != nil {
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
func (p *place) serverRSS() (int64, error) {
	client, server, err := p.rss()
	switch {
	case errors.Is(err, errUnknown):
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
