package main

import (
	"os"
	"strings"
	"testing"
)

func TestBenchLedger(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	temp := t.TempDir()
	s.env = []string{"TMPDIR=" + temp}
	e := s.want(t, 0, []string{"bench", "ledger", "--keys", "1000", "--lookups", "256"}, "keys 1,000\n", "restart after kill -9 ", "create, last 1,000 ", "old, any, one by one 256 ")
	if !strings.Contains(e.stderr, "filling the ledger with 1000 entries") {
		t.Errorf("it says:\n%s", e.stderr)
	}
	s.want(t, 0, []string{"bench", "ledger", "--keys", "1000", "--lookups", "256", "--server", "embedded", "--json"}, `{"settings":{"version":"`, `"keys":1000,"entry_bytes":5`)
	for args, want := range map[string]string{
		"--keys 1": "1 keys, allowed: 1000 to ", "--lookups 1": "1 look-ups, allowed: 256 to ", "--text -1": "-1 bytes of text", "--server given": "not for a ledger", "--server x": `the server is "x"`,
	} {
		if e := s.want(t, exitUsage, append([]string{"bench", "ledger"}, strings.Fields(args)...)); !strings.Contains(e.stderr, want) {
			t.Errorf("%s: %s", args, e.stderr)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
