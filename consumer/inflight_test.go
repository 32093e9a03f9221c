package consumer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// left writes an in-flight file as a process leaves it that died in the last of some attempts.
func (w *world) left(t *testing.T, died map[string]int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "inflight")
	f, err := openInflight(t.Context(), path, w.queues())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); ; seq++ {
		m, err := w.queues().Next(t.Context(), stream.Reports, seq)
		if err != nil {
			break
		}
		seq = m.Ref.Sequence
		for n := range died[m.Event.SiteID] {
			end := f.begin(&delivery{Message: m}, n+1)
			if n+1 < died[m.Event.SiteID] {
				end()
			}
		}
	}
	f.close()
	return path
}

// The server has forgotten the deliveries in which the process died. The file has not: they are charged, and the report that was
// tried often enough is buried unrun.
func TestInflightChargesWhatTheServerForgot(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Workers = 1
	w := newWorld(t, cfg, script{"A": {succeed}, "B": {fail, succeed}, "C": {succeed}})
	w.publish("A", "B", "C", "D")
	path := w.left(t, map[string]int{"A": 1, "B": 2, "D": 4})
	w.start(func(k *worker) {
		f, err := openInflight(t.Context(), path, w.queues())
		if err != nil {
			t.Fatal(err)
		}
		k.inflight = f
	})
	w.check(invariant.Tally{Done: 3, Dead: 1})
	for site, want := range map[string]int{"A": 2, "B": 4, "C": 1} {
		if got := w.entry(site).Attempts; got != want {
			t.Errorf("%s took %d attempts, want %d", site, got, want)
		}
	}
	if l := w.letter("D"); l.Class != report.ClassAbandoned || w.ran("D") != 0 {
		t.Errorf("D ran %d times, and its letter says %s", w.ran("D"), l.Class)
	}
	again, err := openInflight(t.Context(), path, w.queues())
	if err != nil || len(again.spent) != 0 {
		t.Errorf("in the end the file says %v, %v", again.spent, err)
	}
}

// The file is read whatever it holds, names each report once, and does not grow with their number.
func TestInflightFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.publish("A", "B")
	path := w.left(t, map[string]int{"A": 3})
	garbled, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	garbled = append(append(make([]byte, inflightRecord), garbled...), []byte("the rest was not writt")...)
	garbled = append(append([]byte(nil), garbled[:inflightRecord*2]...), garbled[inflightRecord:]...)
	garbled[inflightRecord*2+40]++
	if err := os.WriteFile(path, garbled, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openInflight(t.Context(), path, w.queues())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	a, err := w.queues().Next(t.Context(), stream.Reports, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.forgotten(a.Ref, a.Key, 1); got != 3 || len(f.spent) != 1 {
		t.Errorf("A was spent %d times, and the file says %v", got, f.spent)
	}
	d := &delivery{Message: a}
	for n := range 100 {
		f.begin(d, n)()
	}
	if info, err := f.file.Stat(); err != nil || info.Size() > 5*inflightRecord {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	f.begin(d, 3)
	f.begin(d, 2)
	if both, err := openInflight(t.Context(), path, w.queues()); err != nil || len(both.spent) != 1 || both.forgotten(a.Ref, a.Key, 1) != 3 {
		t.Errorf("of two attempts the file says %v, %v", both.spent, err)
	}
	if err := w.queues().Delete(t.Context(), a.Ref); err != nil {
		t.Fatal(err)
	}
	f.begin(d, 2)
	gone, err := openInflight(t.Context(), path, w.queues())
	if err != nil || len(gone.spent) != 0 {
		t.Errorf("of a message that is gone: %v, %v", gone.spent, err)
	}
	w.keys = w.keys[1:]
	w.check(invariant.Tally{Waiting: 1})
}

// A process is killed with its server in the middle of attempts, again and again: each is charged although nothing else remembers.
func TestInflightOfAKilledProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"A": {succeed}})
	w.publish("A")
	path := filepath.Join(t.TempDir(), "inflight")
	a, err := w.queues().Next(t.Context(), stream.Reports, 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		f, err := openInflight(t.Context(), path, w.queues())
		if err != nil {
			t.Fatal(err)
		}
		if got := f.forgotten(a.Ref, a.Key, 1); got != n-1 {
			t.Fatalf("after %d deaths the file says %d", n-1, got)
		}
		f.begin(&delivery{Message: a}, n) // and never ends
		f.close()
	}
	w.cfg.InFlight = path
	w.start()
	natstest.Eventually(t, "A to land", func() bool { return w.saw("A", Succeeded) == 1 })
	w.check(invariant.Tally{Done: 1})
	if got := w.entry("A").Attempts; got != 4 {
		t.Errorf("it took %d attempts, want 4", got)
	}
}
