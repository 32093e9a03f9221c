package consumer

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/guyline/guyline/internal/invariant"
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
			d := inAttempt(m, n+1)
			f.begin([]*delivery{d}, 4)
			if n+1 < died[m.Event.SiteID] {
				f.end(d)
			}
		}
	}
	f.close()
	return path
}

// inAttempt is a report in hand for its attempt n.
func inAttempt(m stream.Message, n int) *delivery { return &delivery{Message: m, count: uint64(n)} }

// noted has a worker go on with the file of another process.
func (k *worker) noted(t *testing.T, path string) {
	t.Helper()
	var err error
	if k.inflight, err = openInflight(t.Context(), path, k.queues); err != nil {
		t.Fatal(err)
	}
}

// spentOf is what a file says of a report that the server seems to deliver for the first time.
func spentOf(f *inflight, m stream.Message) int {
	n, _ := f.forgotten(m, 1)
	return n
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
	if got := spentOf(f, a); got != 3 || len(f.spent) != 1 {
		t.Errorf("A was spent %d times, and the file says %v", got, f.spent)
	}
	for range 100 {
		d := inAttempt(a, 1)
		f.begin([]*delivery{d}, 4)
		f.end(d)
	}
	if info, err := f.file.Stat(); err != nil || info.Size() > 5*inflightRecord {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	f.begin([]*delivery{inAttempt(a, 3), inAttempt(a, 2)}, 4)
	if both, err := openInflight(t.Context(), path, w.queues()); err != nil || len(both.spent) != 1 || spentOf(both, a) != 3 {
		t.Errorf("of two attempts the file says %v, %v", both.spent, err)
	}
	if err := w.queues().Delete(t.Context(), a.Ref); err != nil {
		t.Fatal(err)
	}
	f.begin([]*delivery{inAttempt(a, 2)}, 4)
	gone, err := openInflight(t.Context(), path, w.queues())
	if err != nil || len(gone.spent) != 0 {
		t.Errorf("of a message that is gone: %v, %v", gone.spent, err)
	}
	w.keys = w.keys[1:]
	w.check(invariant.Tally{Waiting: 1})
}

// Many reports are noted together, also where records between them are in use, and each is found again.
func TestInflightOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	for i := range 40 {
		w.publish(fmt.Sprint("S", i))
	}
	path := filepath.Join(t.TempDir(), "inflight")
	f, err := openInflight(t.Context(), path, w.queues())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	var all []*delivery
	for seq := range uint64(40) {
		m, err := w.queues().Next(t.Context(), stream.Reports, seq+1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, inAttempt(m, int(seq%3)+1))
	}
	f.begin(all, 4)
	f.begin(nil, 4)
	for i := range 20 {
		f.end(all[2*i]) // every other record is free now
	}
	again := all[:0:0]
	for i := range 20 {
		again = append(again, inAttempt(all[2*i].Message, 3))
	}
	f.begin(again, 4)
	places := map[int]bool{}
	for i := range 20 {
		places[all[2*i+1].noted], places[again[i].noted] = true, true
	}
	if len(places) != 40 || f.inUse != 40 {
		t.Errorf("40 reports in hand have %d records, of %d in use", len(places), f.inUse)
	}
	next, err := openInflight(t.Context(), path, w.queues())
	if err != nil {
		t.Fatal(err)
	}
	defer next.file.Close()
	for i, d := range all {
		want := i%3 + 1
		if i%2 == 0 {
			want = 3
		}
		if got := spentOf(next, d.Message); got != want {
			t.Errorf("report %d was spent %d times, want %d", i, got, want)
		}
	}
	w.check(invariant.Tally{Waiting: 40})
}

// Streams that are made anew give their sequences again. What a file says of the messages before is not said of those.
func TestInflightOfStreamsMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.publish("A")
	path := w.left(t, map[string]int{"A": 3})
	w.makeAnew(stream.Reports)
	w.keys = nil
	w.publish("A")
	f, err := openInflight(t.Context(), path, w.queues())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	m, err := w.queues().Next(t.Context(), stream.Reports, 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Ref.Sequence != 1 || spentOf(f, m) != 0 {
		t.Errorf("message %d is charged %d attempts of one that is gone", m.Ref.Sequence, spentOf(f, m))
	}
	w.check(invariant.Tally{Waiting: 1})
}

// Of two records of a report the later one counts, and is kept until its next attempt, whatever comes in between.
func TestInflightKeepsTheLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{})
	w.publish("A", "B")
	path := filepath.Join(t.TempDir(), "inflight")
	var m [2]stream.Message
	for i := range m {
		var err error
		if m[i], err = w.queues().Next(t.Context(), stream.Reports, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	process := func(do func(*inflight)) {
		f, err := openInflight(t.Context(), path, w.queues())
		if err != nil {
			t.Fatal(err)
		}
		defer f.file.Close() // as a process that dies does
		do(f)
	}
	process(func(f *inflight) {
		d := inAttempt(m[0], 1)
		f.begin([]*delivery{d}, 4)
		f.end(d)
		f.begin([]*delivery{inAttempt(m[0], 2)}, 4)
	})
	for range 3 {
		process(func(f *inflight) {
			if got := spentOf(f, m[0]); got != 2 {
				t.Errorf("A was spent %d times, want 2", got)
			}
			for range 6 {
				d := inAttempt(m[1], 1)
				f.begin([]*delivery{d}, 4)
				f.end(d)
			}
		})
	}
	w.check(invariant.Tally{Waiting: 2})
}
