package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
)

func TestParseStat(t *testing.T) {
	for _, bad := range []string{"", "12 no parentheses 1 2 3", "12 (short) S 1 2 3", "x (name) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "12 (a) S 1 2 3 4 5 6 7 8 9 10 x 12 13 14"} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
	// pid, name, state, parent, ..., utime 100, stime 20, cutime 3, cstime 4
	p, err := parseStat([]byte("4711 (a ) (b) S 42 1 1 0 -1 4194560 9 9 9 9 100 20 3 4 20 0 1 0 12345"))
	if want := (process{4711, 42, 1270 * time.Millisecond}); err != nil || p != want {
		t.Errorf("read %+v, %v; want %+v", p, err, want)
	}
}

func TestTreeIsTheServerAndItsDescendants(t *testing.T) {
	proc := t.TempDir()
	for pid, stat := range map[string]string{
		"10": "10 (postgres) S 1 0 0 0 0 0 0 0 0 0 5 0 7 0", "11": "11 (postgres) S 10 0 0 0 0 0 0 0 0 0 1 1 0 0",
		"12": "12 (worker) S 11 0 0 0 0 0 0 0 0 0 2 0 0 0", "20": "20 (other) S 1 0 0 0 0 0 0 0 0 0 99 0 0 0", "self": "not a process",
	} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(proc, "13"), 0o755); err != nil { // ended between the two reads
		t.Fatal(err)
	}
	if found, err := tree(proc, 21); err == nil {
		t.Errorf("a process that is not there has the tree %+v", found)
	}
	found, err := tree(proc, 10)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	var cpu time.Duration
	for _, p := range found {
		pids, cpu = append(pids, p.pid), cpu+p.cpu
	}
	if want := []int{10, 11, 12}; !slices.Equal(pids, want) || cpu != 160*time.Millisecond {
		t.Errorf("the tree is %v with %v of CPU time; want %v with 160ms", pids, cpu, want)
	}
}

func TestMeterSeesWhatThisProcessUses(t *testing.T) {
	m := meter{servers: os.Getpid()}
	if err := m.begin(); err != nil {
		t.Fatal(err)
	}
	for used := m.from.client; used-m.from.client < 50*time.Millisecond; {
		r, err := m.read()
		if err != nil {
			t.Fatal(err)
		}
		used = r.client
	}
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
	if client, server := m.to.client-m.from.client, m.to.servers-m.from.servers; client < 50*time.Millisecond || server < 20*time.Millisecond {
		t.Errorf("of at least 50ms it saw %v as client and %v as server", client, server)
	}
	if m.clientMemory < 1<<20 || m.serverMemory < 1<<20 {
		t.Errorf("the memory is %d and %d bytes", m.clientMemory, m.serverMemory)
	}
}

func TestBacklogRepeatsOneInFour(t *testing.T) {
	events, unique := backlog(1002, 7)
	seen := map[string]int{}
	for i, e := range events {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 200 || len(b) > 300 {
			t.Errorf("event %d has %d bytes", i, len(b))
		}
		read, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		strict, err := report.Decode(b)
		if err != nil {
			t.Fatalf("the product refuses %s: %v", b, err)
		}
		if read.key() != string(strict.Key()) {
			t.Errorf("event %d has key %s for the peers and %s for the product", i, read.key(), strict.Key())
		}
		if first, known := seen[read.key()]; known != (i%4 == 3) {
			t.Errorf("event %d repeats %d: %v", i, first, known)
		}
		seen[read.key()] = i
	}
	if len(events) != 1002 || unique != 752 || len(seen) != unique {
		t.Errorf("%d events, %d said to be unique, %d are", len(events), unique, len(seen))
	}
	if other, _ := backlog(1002, 8); other[0].key() == events[0].key() {
		t.Error("two repetitions have the same events")
	}
}

func TestCheckCountsExactly(t *testing.T) {
	for _, c := range []struct {
		handled, known, stored int
		good                   bool
	}{
		{7, 2, 6, false}, {8, 1, 6, false}, {8, 2, 5, false}, {8, 3, 6, false}, {8, 2, -1, false}, {8, 2, 6, true}, {8, 0, -1, true},
	} {
		j := newJob(task{N: 8})
		for i := range c.handled {
			j.settled(i < c.known)
		}
		if err := j.check(c.stored); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		numbers []float64
		want    spread
	}{
		{nil, spread{}}, {[]float64{3}, spread{3, 3, 3}}, {[]float64{9, 1, 4}, spread{4, 1, 9}}, {[]float64{8, 1, 2, 4}, spread{3, 1, 8}},
	} {
		if got := spreadOf(c.numbers); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.numbers, got, c.want)
		}
	}
}

func TestTableComparesWithinARepetition(t *testing.T) {
	rows := []row{{name: ours, base: ours}, {name: "peer", base: ours, note: "its settings"}, {name: "unmeasured", base: ours}}
	lines := summarise(rows, []sample{
		{Row: "peer", Rep: 0, Jobs: 1000, Seconds: 1, ClientCPU: 0.1, ServerCPU: 0.1}, // a loud neighbour slows both in repetition 1
		{Row: ours, Rep: 0, Jobs: 1000, Seconds: 0.2, ClientCPU: 0.03, ServerCPU: 0.01},
		{Row: ours, Rep: 1, Jobs: 1000, Seconds: 1, ClientCPU: 0.04, ServerCPU: 0.04},
		{Row: "peer", Rep: 1, Jobs: 1000, Seconds: 4, ClientCPU: 0.2, ServerCPU: 0.2},
		{Row: "peer", Rep: 2, Jobs: 1000, Seconds: 1, ClientCPU: 0.1, ServerCPU: 0.1}, // ours is missing here
	})
	if len(lines) != 2 || lines[0].OursRate != nil || lines[1].OursRate == nil {
		t.Fatalf("the lines are %+v", lines)
	}
	if got, want := lines[1].OursRate.text("%.1f"), "4.5 [4.0-5.0]"; got != want {
		t.Errorf("the ratio of rates is %s, want %s", got, want)
	}
	if got, want := lines[1].OursCPU.text("%.2f"), "0.20 [0.20-0.20]"; got != want {
		t.Errorf("the ratio of CPU is %s, want %s", got, want)
	}
	var out strings.Builder
	if err := printTable(&out, lines); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1000 [250-1000]", "20.0 [20.0-40.0]", "4.5 [4.0-5.0]", "its settings"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
}

func TestOnlyChoosesRowsAndWhatTheyAreComparedWith(t *testing.T) {
	if _, err := chosen(rows(), "ours,sidekiq"); err == nil || !strings.Contains(err.Error(), "watermill+ledger") {
		t.Errorf("an unknown row: %v", err)
	}
	got, err := chosen(rows(), "watermill*,river-64-sync+ledger")
	var names []string
	for _, r := range got {
		names = append(names, r.name)
	}
	if want := []string{"ours", "ours-sync", "river-64-sync+ledger", "watermill", "watermill+ledger", "watermill-double+ledger"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("chosen are %v, %v; want %v", names, err, want)
	}
	for _, r := range rows() {
		if strings.Contains(r.name, "-sync") != (r.base == oursSync) {
			t.Errorf("%s is compared with %s, which loses more or less in a power cut", r.name, r.base)
		}
	}
	if all, err := chosen(rows(), ""); err != nil || len(all) != len(rows()) {
		t.Errorf("without a choice: %d rows, %v", len(all), err)
	}
}
