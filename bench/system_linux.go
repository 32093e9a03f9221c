package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is the unit of CPU times in /proc: USER_HZ is 100 on every architecture that Go supports.
const ticks = time.Second / 100

// processCPU reads user and system time from /proc/PID/stat, proc(5).
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on: the name may have spaces
	if len(fields) < 13 {
		return 0, fmt.Errorf("%w: /proc/%d/stat has %d fields", errUnknown, pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return time.Duration(user+system) * ticks, nil
}

func residentNow(pid int) (int64, error)  { return statusBytes(pid, "VmRSS:") }
func residentPeak(pid int) (int64, error) { return statusBytes(pid, "VmHWM:") }

// statusBytes reads one size from /proc/PID/status.
func statusBytes(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	}
	for line := range strings.Lines(string(status)) {
		if size, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			if err != nil {
				break
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("%w: no %s in /proc/%d/status", errUnknown, name, pid)
}

// resetPeak has the kernel count VmHWM from now on.
func resetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	return nil
}

// loadAverage is the load average of the last minute.
func loadAverage() (float64, error) {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	return strconv.ParseFloat(first, 64)
}
