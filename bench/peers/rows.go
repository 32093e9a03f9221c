package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
)

// row is one system in one configuration: a line of the table.
type row struct {
	name  string
	note  string // its settings
	start func(ctx context.Context, dir, secret string) (*server, error)
	work  func(context.Context, *job) error
}

// riverConnections is the size of River's pool, which is pgx's default: on two CPUs, more connections cost more CPU time and win nothing.
func riverConnections() int { return max(4, runtime.NumCPU()) }

// ours is the row that the others are compared with.
const ours = "ours"

// rows are all that is measured, in the order of the table.
func rows() []row {
	all := []row{
		{ours, "Guyline of this checkout, 1024 workers, everything on, log at info to a file", startNATS, ourJob(1024)},
		{"ours-64", "the same, 64 workers", startNATS, ourJob(64)},
		{"asynq", "AOF everysec, concurrency 64, no ledger", startRedis, asynqJob(64, false)},
		{"asynq+ledger", "the same, SET NX by key", startRedis, asynqJob(64, true)},
	}
	for _, commit := range []string{"off", "on"} {
		for _, workers := range []int{64, 1000} {
			name, note := fmt.Sprintf("river-%d", workers), fmt.Sprintf("%d workers, cooldown 2 ms, poll 20 ms, synchronous_commit %s", workers, commit)
			if commit == "on" {
				name += "-sync"
			}
			all = append(all,
				row{name, note + ", no ledger", startPostgres(commit), riverJob(workers, riverConnections(), false)},
				row{name + "+ledger", note + ", INSERT ON CONFLICT by key", startPostgres(commit), riverJob(workers, riverConnections(), true)})
		}
	}
	async := watermillConfig{subscribers: 64, pull: 100, async: true}
	asyncLedger, doubleLedger := async, async
	asyncLedger.ledger, doubleLedger.ledger, doubleLedger.async = true, true, false
	return append(all,
		row{"watermill", "AckAsync, 64 subscribers, pull 100, MaxAckPending 10000, no ledger", startNATS, watermillJob(async)},
		row{"watermill+ledger", "the same, kv.Create by key", startNATS, watermillJob(asyncLedger)},
		row{"watermill-double+ledger", "the same, DoubleAck (its default), kv.Create by key", startNATS, watermillJob(doubleLedger)})
}

// chosen are the rows whose names are in a list or begin with what is in it; all for an empty list.
func chosen(all []row, list string) ([]row, error) {
	if list == "" {
		return all, nil
	}
	picked := map[string]bool{}
	for want := range strings.SplitSeq(list, ",") {
		hits := 0
		for _, r := range all {
			if want != "" && strings.HasPrefix(r.name, want) {
				picked[r.name] = true
				hits++
			}
		}
		if hits == 0 {
			var names []string
			for _, r := range all {
				names = append(names, r.name)
			}
			return nil, fmt.Errorf("--only %q: no row begins so; there are %s", want, strings.Join(names, " "))
		}
	}
	var rows []row
	for _, r := range all {
		if picked[r.name] {
			rows = append(rows, r)
		}
	}
	return rows, nil
}
