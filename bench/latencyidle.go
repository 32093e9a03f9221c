package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// calm is how long a worker may settle before it counts as idle.
const calm = 5 * time.Second

// measureIdle starts `guyline run` on an empty store and reads what the process costs while nothing happens. The process that waits
// for files to inspect counts by itself.
func measureIdle(ctx context.Context, cfg LatencyConfig, r *LatencyResult) (err error) {
	y, err := cfg.openYard(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	var row IdleResult
	var unread error
	err = y.run(ctx, func(pid int, _ time.Time, line []byte) bool {
		if s, ok := stepOfLog(line); !ok || s.Step != StepReady {
			return false
		}
		row, unread = cfg.watchIdle(ctx, pid)
		return true
	}, "run")
	if err = errors.Join(err, unread); err != nil && !errors.Is(err, errUnknown) {
		return err
	}
	if err == nil {
		r.Idle = &row
	}
	return nil
}

func (c LatencyConfig) watchIdle(ctx context.Context, pid int) (row IdleResult, err error) {
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(min(calm, c.Idle)); err != nil {
		return row, err
	}
	self, others := []int{pid}, children(pid)
	own, err := total(self, processCPU)
	other, unknown := total(others, processCPU)
	if err := errors.Join(err, unknown); err != nil {
		return row, err
	}
	began := time.Now()
	if err := wait(c.Idle); err != nil {
		return row, err
	}
	ownAfter, err := total(self, processCPU)
	otherAfter, unknown := total(others, processCPU)
	if err := errors.Join(err, unknown); err != nil {
		return row, err
	}
	row.Seconds = time.Since(began).Seconds()
	row.CPU = 100 * (ownAfter - own).Seconds() / row.Seconds
	row.InspectionCPU = 100 * (otherAfter - other).Seconds() / row.Seconds
	row.RSS, err = total(self, residentNow)
	row.InspectionRSS, unknown = total(others, residentNow)
	return row, errors.Join(err, unknown)
}

// total adds up what each of some processes uses.
func total[N time.Duration | int64](pids []int, uses func(pid int) (N, error)) (sum N, err error) {
	for _, pid := range pids {
		n, failed := uses(pid)
		sum, err = sum+n, errors.Join(err, failed)
	}
	return sum, err
}

// children are the processes that a process has started, where /proc tells.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for word := range strings.FieldsSeq(string(b)) {
			var p int
			if _, err := fmt.Sscan(word, &p); err == nil {
				pids = append(pids, p)
			}
		}
	}
	return pids
}
