package bench

import (
	"strings"
	"testing"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	for mode, restarts := range map[Mode]bool{Separate: true, Embedded: false} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			p := open(t, Config{Mode: mode, Sync: Interval})
			var said []string
			cfg := LedgerConfig{Keys: 30_000, Lookups: 512, Text: 100} // more than one portion
			r, err := Ledger(t.Context(), p, cfg, func(format string, _ ...any) { said = append(said, format) })
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
			if _, err := Ledger(t.Context(), p, cfg, func(string, ...any) {}); err == nil || !strings.Contains(err.Error(), "30000 entries") {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

func TestLedgerWrongInput(t *testing.T) {
	t.Parallel()
	good := LedgerConfig{Keys: 1000, Lookups: 256}
	for _, change := range []func(*LedgerConfig){
		func(c *LedgerConfig) { c.Keys = 999 }, func(c *LedgerConfig) { c.Keys = 100_000_001 }, func(c *LedgerConfig) { c.Lookups = 255 },
		func(c *LedgerConfig) { c.Lookups = 10_000_001 }, func(c *LedgerConfig) { c.Text = -1 }, func(c *LedgerConfig) { c.Text = 32<<10 + 1 },
	} {
		cfg := good
		if change(&cfg); cfg.Validate() == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	p, err := Open(t.Context(), Config{Mode: Given, URL: "nats://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ledger(t.Context(), p, good, nil); err == nil || !strings.Contains(err.Error(), "given") {
		t.Errorf("a given server: %v", err)
	}
}
