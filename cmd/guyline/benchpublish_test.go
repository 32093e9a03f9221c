package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/guyline/guyline/bench"
)

func TestBenchPublish(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, 0, []string{"bench", "publish", "--rows", "1000", "--reps", "2"}, "server separate, sync interval\n", "list CSV, 1000 rows; the ledger has 0 other reports\n",
		"guyline / raw: rate ", "the goal, a rate of at least 0.90, is ")
	for _, args := range []string{"--lines --known 2000", "--server embedded --sync always"} {
		e := s.want(t, 0, append(strings.Fields("bench publish --rows 1000 --reps 1 --json"), strings.Fields(args)...))
		var r bench.PublishResult
		if err := json.Unmarshal([]byte(e.stdout), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Raw) != 1 || len(r.Guyline) != 1 || r.Raw[0].Rate <= 0 || r.Guyline[0].Rate <= 0 || r.Rate.Median != r.Guyline[0].Rate/r.Raw[0].Rate {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for args, want := range map[string]string{
		"--rows 10":  "the number of rows is 10, allowed is 1000 to 5000000",
		"--known -1": "the number of known reports is -1, allowed is 0 to 5000000",
		"--reps 0":   "the number of repetitions is 0, allowed is 1 to 100",
	} {
		if e := s.want(t, exitUsage, append([]string{"bench", "publish"}, strings.Fields(args)...)); !strings.Contains(e.stderr, want) {
			t.Errorf("%s: %s", args, e.stderr)
		}
	}
}
