package doctor

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// powerFailure says what a power failure could lose.
func powerFailure(f Facts) []Finding {
	const check, where = "durability", "power failure"
	if s := f.Store; s != nil {
		switch {
		case s.Remote:
			return []Finding{note(check, where, "another process holds the store, and its GUYLINE_SYNC counts", "with always, the default, nothing that was acknowledged is lost", "")}
		case s.LazySync:
			return []Finding{person(check, where, "GUYLINE_SYNC is interval", "what was acknowledged in the last two minutes can be lost, settled reports too", "unset GUYLINE_SYNC")}
		}
		return []Finding{note(check, where, "every write is synced to the disk", "nothing that was acknowledged is lost", "")}
	}
	lazy := ""
	for _, s := range f.Sync {
		if !s.Always {
			lazy = fmt.Sprintf("%s syncs its disk every %v", s.Server, s.Interval)
		}
	}
	alone := f.Queues.Replicas <= 1
	switch {
	case len(f.Sync) > 0 && lazy == "":
		return []Finding{note(check, where, "the servers sync every write to the disk", "nothing that was acknowledged is lost", "")}
	case lazy != "" && alone:
		return []Finding{person(check, where, lazy+", and there is one replica", "what was acknowledged since can be lost, settled reports too", "set jetstream { sync_interval: always } in its configuration, or GUYLINE_REPLICAS=3")}
	case lazy != "":
		return []Finding{note(check, where, lazy, "what was acknowledged since can be lost if more than half of the replicas lose power at once", "keep them on separate power, or set jetstream { sync_interval: always }")}
	case alone:
		return []Finding{note(check, where, "how the server syncs its disk cannot be read by this user",
			"by default it does every two minutes, and what was acknowledged since can be lost", "see that its configuration has jetstream { sync_interval: always }, or set GUYLINE_REPLICAS=3")}
	}
	return []Finding{note(check, where, "how the servers sync their disks cannot be read by this user",
		"by default they do every two minutes, and what was acknowledged since can be lost if more than half of the replicas lose power at once", "keep them on separate power, or set jetstream { sync_interval: always }")}
}

// leastFree is how many bytes the disk of an embedded store must have left, beside what the waiting reports will take.
const leastFree = 1 << 30

// entry is how many bytes the ledger needs for a settled report: docs/performance.md.
const entry = 750

// disk compares what is left with what the queue may grow to, and with what the ledger will need for the reports that wait.
func disk(f Facts) []Finding {
	if f.Store == nil || f.Store.Free == nil {
		return nil
	}
	var may, waiting uint64
	for _, s := range f.Streams {
		if s.role > requeue || s.Have == nil {
			continue
		}
		waiting += s.Have.State.Msgs
		if most := s.Have.Config.MaxBytes; s.role == queue && most > 0 {
			may = uint64(most) - min(uint64(most), s.Have.State.Bytes)
		}
	}
	free, settled := *f.Store.Free, entry*waiting
	what := "the disk has " + humanize.IBytes(free) + " left"
	if waiting > 0 {
		what += ", of which the ledger needs " + humanize.IBytes(settled) + " for " + plural(waiting, "report that waits", "reports that wait")
	}
	switch {
	case free < leastFree+settled:
		return []Finding{person("disk", f.Store.Dir, what, "when it is full, nothing more is acknowledged until there is room and `guyline run` is started again",
			"make room, or move the store (GUYLINE_DATA_DIR)")}
	case free < may+settled:
		return []Finding{note("disk", f.Store.Dir, what+", and the queue may grow by "+humanize.IBytes(may), "the disk is full before the queue is, and publishers get no answer instead of a refusal", "make room, or lower GUYLINE_QUEUE_BYTES and run `guyline setup`")}
	}
	return nil
}
