package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/guyline/guyline/keyvalue"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	for mode, restarts := range map[Mode]bool{Separate: true, Embedded: false} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var said []string
			cfg := LedgerConfig{Place: Config{Mode: mode, Sync: Interval, Dir: t.TempDir()}, Keys: 30_000, Lookups: 512, Text: 100} // more than one portion
			r, err := Ledger(t.Context(), cfg, func(format string, _ ...any) { said = append(said, format) })
			if err != nil {
				t.Fatal(err)
			}
			if r.Keys != cfg.Keys || r.Entry < 600 || r.Entry > 800 || r.First.Count != cfg.Keys || r.Last.Count != cfg.Keys || r.First.Rate <= 0 {
				t.Errorf("filled: %+v", r)
			}
			if least := int64(cfg.Keys * r.Entry); r.Disk < least || r.Disk > 2*least {
				t.Errorf("%d bytes on the disk, for %d of entries", r.Disk, least)
			}
			for _, l := range r.Lookups {
				if l.Count != cfg.Lookups || l.Rate <= 0 || l.Median <= 0 || l.Most < l.Median {
					t.Errorf("%+v", l)
				}
			}
			if len(r.Lookups) != len((&ledgerBench{cfg: cfg}).ways()) || len(said) < len(r.Lookups) {
				t.Errorf("%d ways, said %q", len(r.Lookups), said)
			}
			for _, back := range []*Recovery{r.Stopped, r.Killed} {
				if (back != nil) != restarts || back != nil && (back.Keys != cfg.Keys || back.Seconds <= 0) {
					t.Errorf("back again: %+v", back)
				}
			}
			if _, err := Ledger(t.Context(), cfg, func(string, ...any) {}); err == nil || !strings.Contains(err.Error(), "30000 entries") {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// Entries that are poured in are all there, and none takes the place of another.
func TestLedgerPour(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Mode: Embedded, Sync: Interval})
	b, closeAll, err := openLedger(t.Context(), p, LedgerConfig{Keys: 9000, Lookups: together})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	for range 2 {
		if _, err = b.pour(t.Context(), 0, 9000); err != nil {
			break
		}
	}
	if n, lost := b.ledger.Len(t.Context()); err == nil || lost != nil || n != 9000 {
		t.Errorf("%d entries, %v; the second time: %v", n, lost, err)
	}
}

// What is stored is what a worker stores.
func TestLedgerEntry(t *testing.T) {
	t.Parallel()
	text := (&ledgerBench{text: "no defect found. "}).entry(7)
	var e keyvalue.Entry
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(e)
	if err != nil || string(again) != string(text) {
		t.Errorf("%v\n%s, want\n%s", err, text, again)
	}
	if e.Key() != ref(7).Key || e.State != keyvalue.Done {
		t.Errorf("%+v", e)
	}
}

func TestLedgerWrongInput(t *testing.T) {
	t.Parallel()
	good := LedgerConfig{Place: Config{Mode: Embedded, Sync: Interval}, Keys: 1000, Lookups: 256}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*LedgerConfig){
		func(c *LedgerConfig) { c.Keys = 999 }, func(c *LedgerConfig) { c.Keys = 100_000_001 }, func(c *LedgerConfig) { c.Lookups = 255 },
		func(c *LedgerConfig) { c.Place = Config{Mode: Given, URL: "nats://127.0.0.1:1"} },
		func(c *LedgerConfig) { c.Lookups = 10_000_001 }, func(c *LedgerConfig) { c.Text = -1 }, func(c *LedgerConfig) { c.Text = 32<<10 + 1 },
	} {
		cfg := good
		if change(&cfg); cfg.Validate() == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
