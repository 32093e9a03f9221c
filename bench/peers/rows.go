package main

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
)

// row is one system in one configuration: a line of the table.
type row struct {
	name  string
	base  string // the row of ours that it is compared with: one that loses as much in a power cut
	note  string // its settings
	start func(ctx context.Context, dir, secret string) (*server, error)
	work  func(context.Context, *job) error
}

// Rows of ours that others are compared with.
const (
	ours     = "ours"
	oursSync = "ours-sync" // fsync before each acknowledgement
)

// riverPool is the number of connections with which River costs the least CPU time here, of 4 to 90: pgx's default, but for few
// workers without a ledger.
func riverPool(workers int, ledger bool) int {
	if workers == 64 && !ledger {
		return 64
	}
	return max(4, runtime.NumCPU())
}

// rows are all that is measured, in the order of the table.
func rows() []row {
	all := []row{
		{ours, ours, "Guyline, 1024 workers, all features, info log to a file; server syncs every second", startNATS(false), ourJob(1024, false)},
		{"ours-64", ours, "the same, 64 workers", startNATS(false), ourJob(64, false)},
		{oursSync, oursSync, "1024 workers; server syncs before each acknowledgement", startNATS(true), ourJob(1024, true)},
		{"asynq", ours, "AOF everysec, concurrency 32; no ledger", startRedis, asynqJob(32, false)},
		{"asynq+ledger", ours, "the same, ledger: SET NX", startRedis, asynqJob(32, true)},
	}
	for _, commit := range []string{"off", "on"} {
		for _, workers := range []int{64, 1000} {
			for _, ledger := range []bool{false, true} {
				pool := riverPool(workers, ledger)
				r := row{fmt.Sprintf("river-%d", workers), ours, "", startPostgres(commit), riverJob(workers, pool, ledger)}
				r.note = fmt.Sprintf("%d workers, pool %d, cooldown 2 ms, poll 20 ms, synchronous_commit %s; no ledger", workers, pool, commit)
				if commit == "on" {
					r.name, r.base = r.name+"-sync", oursSync
				}
				if ledger {
					r.name, r.note = r.name+"+ledger", strings.Replace(r.note, "no ledger", "ledger: INSERT ON CONFLICT", 1)
				}
				all = append(all, r)
			}
		}
	}
	return append(all,
		row{"watermill", ours, "AckAsync, 16 subscribers, pull 100; server syncs every second; no ledger", startNATS(false),
			watermillJob(watermillConfig{subscribers: 16, pull: 100, async: true})},
		row{"watermill+ledger", ours, "the same, 64 subscribers, ledger: kv.Create", startNATS(false),
			watermillJob(watermillConfig{subscribers: 64, pull: 100, async: true, ledger: true})},
		row{"watermill-double+ledger", ours, "the same with DoubleAck, its default", startNATS(false),
			watermillJob(watermillConfig{subscribers: 64, pull: 100, ledger: true})})
}

// chosen are the rows whose names match a list of patterns, and those that they are compared with; all for an empty list.
func chosen(all []row, list string) ([]row, error) {
	if list == "" {
		return all, nil
	}
	picked := map[string]bool{}
	for pattern := range strings.SplitSeq(list, ",") {
		hit := false
		for _, r := range all {
			if yes, _ := path.Match(pattern, r.name); yes {
				picked[r.name], picked[r.base] = true, true
				hit = true
			}
		}
		if !hit {
			var names []string
			for _, r := range all {
				names = append(names, r.name)
			}
			return nil, fmt.Errorf("--only %q matches no row; there are %s", pattern, strings.Join(names, " "))
		}
	}
	return slices.DeleteFunc(all, func(r row) bool { return !picked[r.name] }), nil
}
