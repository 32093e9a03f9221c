package proof

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
)

// What was done to many events is told apart, also when hundreds are missing or many things were done at once.
func TestBlame(t *testing.T) {
	t.Parallel()
	const n, base = 3000, 100
	event := func(id int) []byte { return []byte{byte(id), byte(id >> 8), byte(id >> 16)} }
	var signed []tlog.Hash
	var original []int
	for id := 1; id <= n; id++ {
		signed = append(signed, eventLeaf(uint64(id), "s", event(id)))
		original = append(original, id)
	}
	for name, tt := range map[string]struct {
		change func(ids []int) []int // ids[i] is the event that has the sequence i+1 now
		want   []string
	}{
		"nothing":              {func(ids []int) []int { return ids }, nil},
		"later events":         {func(ids []int) []int { return append(ids, 4000, 4001) }, nil},
		"one edited":           {func(ids []int) []int { ids[1499] = 9999; return ids }, []string{"event 1500: the event was edited"}},
		"the last one edited":  {func(ids []int) []int { ids[n-1] = 9999; return ids }, []string{"event 3000: the event was edited"}},
		"many removed":         {func(ids []int) []int { return slices.Delete(ids, 499, 1499) }, []string{"event 500: the events 500 to 1499 were removed"}},
		"removed, more follow": {func(ids []int) []int { return append(slices.Delete(ids, 499, 1499), 4000, 4001) }, []string{"event 500: the events 500 to 1499 were removed"}},
		"cut off":              {func(ids []int) []int { return ids[:2000] }, []string{"event 2001: the events 2001 to 3000 were cut off"}},
		"all after the base":   {func(ids []int) []int { return ids[:base] }, []string{"event 101: the events 101 to 3000 were cut off"}},
		"put in":               {func(ids []int) []int { return slices.Insert(ids, 200, 9999) }, []string{"event 201: the event was put in: it is not one of those that were signed"}},
		"one sent far":         {func(ids []int) []int { return slices.Insert(slices.Delete(ids, 199, 200), 2000, 200) }, []string{"event 200: the event was moved: it now comes after event 2001"}},
		"a swapped pair":       {func(ids []int) []int { ids[699], ids[700] = ids[700], ids[699]; return ids }, []string{"event 700: the event was moved: it now comes after event 701"}},
		"everything at once": {func(ids []int) []int {
			ids[2899] = 9999
			ids[699], ids[700] = ids[700], ids[699]
			return slices.Delete(slices.Delete(ids, 2499, 2500), 299, 302)
		}, []string{
			"event 2900: the event was edited", "event 700: the event was moved: it now comes after event 701", "event 300: the events 300 to 302 were removed",
			"event 2500: the event was removed",
		}},
	} {
		b := newBlame(base, signed)
		for i, id := range tt.change(slices.Clone(original)) {
			if i >= base {
				b.place(uint64(i+1), func(sequence uint64) tlog.Hash { return eventLeaf(sequence, "s", event(id)) })
			}
		}
		var got []string
		for _, f := range b.verdict() {
			got = append(got, f.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
