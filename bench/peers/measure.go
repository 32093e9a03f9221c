package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is how many units of CPU time in /proc are a second: USER_HZ, 100 on every Linux that Go runs on.
const ticks = 100

// meter measures this process and one tree of server processes.
type meter struct {
	servers  int // process at the root of the tree
	from, to reading

	clientMemory, serverMemory int64 // at the end
}

// reading is what was used up to a moment.
type reading struct {
	at              time.Time
	client, servers time.Duration
}

func (m *meter) begin() (err error) { m.from, err = m.read(); return err }

func (m *meter) end() (err error) {
	if m.to, err = m.read(); err != nil {
		return err
	}
	m.clientMemory, m.serverMemory, err = m.memory()
	return err
}

func (m *meter) read() (r reading, err error) {
	r.at = time.Now()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return r, fmt.Errorf("measure this process: %w", err)
	}
	r.client = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	family, err := tree("/proc", m.servers)
	for _, p := range family {
		r.servers += p.cpu
	}
	return r, err
}

// process is one line of /proc/PID/stat.
type process struct {
	pid, parent int
	cpu         time.Duration // of itself and of the children that ended and were waited for
}

// parseStat reads /proc/PID/stat. The name in parentheses may hold anything.
func parseStat(line []byte) (process, error) {
	opening, closing := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if opening < 0 || closing < opening {
		return process{}, fmt.Errorf("not a stat line: %.80q", line)
	}
	rest := strings.Fields(string(line[closing+1:])) // from field 3, the state
	if len(rest) < 15 {
		return process{}, fmt.Errorf("a short stat line: %.80q", line)
	}
	var numbers [6]int64
	for i, text := range []string{strings.TrimSpace(string(line[:opening])), rest[1], rest[11], rest[12], rest[13], rest[14]} {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("a strange stat line: %.80q", line)
		}
		numbers[i] = n
	}
	used := numbers[2] + numbers[3] + numbers[4] + numbers[5] // utime, stime, cutime, cstime
	return process{int(numbers[0]), int(numbers[1]), time.Duration(used) * time.Second / ticks}, nil
}

// tree is a process and all its descendants that live. Those that ended count in the time of whoever waited for them.
func tree(proc string, root int) ([]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	byParent := map[int][]process{}
	var found []process
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has just ended
		}
		if err != nil {
			return nil, err
		}
		p, err := parseStat(line)
		if err != nil {
			return nil, err
		}
		byParent[p.parent] = append(byParent[p.parent], p)
		if p.pid == root {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("server process %d is gone", root)
	}
	for i := 0; i < len(found); i++ {
		found = append(found, byParent[found[i].pid]...)
	}
	return found, nil
}

// memory is the resident memory of this process, and of the servers. Of several processes each page that they share counts once.
func (m *meter) memory() (client, servers int64, err error) {
	if client, err = kilobytes("/proc/self/status", "VmRSS:"); err != nil {
		return 0, 0, err
	}
	family, err := tree("/proc", m.servers)
	if err != nil {
		return 0, 0, err
	}
	file, field := "status", "VmRSS:"
	if len(family) > 1 {
		file, field = "smaps_rollup", "Pss:"
	}
	for _, p := range family {
		n, err := kilobytes(fmt.Sprintf("/proc/%d/%s", p.pid, file), field)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		servers += n
	}
	return client, servers, nil
}

// kilobytes reads a line like "VmRSS:  1776 kB" and returns bytes.
func kilobytes(file, field string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, field)
}

// load is the machine's load average of the last minute: how much the neighbours disturbed.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}
