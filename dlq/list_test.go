package dlq

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/report"
)

func collect(t testing.TB, letters iter.Seq2[Letter, error]) (got []Letter) {
	t.Helper()
	for l, err := range letters {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	return got
}

func TestList(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	if got := collect(t, y.List(t.Context(), Filter{})); got != nil {
		t.Errorf("an empty queue: %+v", got)
	}
	at := full().FailedAt
	var letters []Letter
	for i, change := range []func(*Letter){
		func(l *Letter) { l.Class, l.Code = report.ClassPoison, report.CodeNotFound },
		func(l *Letter) { l.Code, l.FailedAt = report.CodeNotFound, at.Add(time.Hour) },
		func(l *Letter) { l.Due, l.Reason, l.Replays = time.Time{}, "HTTP 503 from host", 5 },
		func(l *Letter) { l.Due, l.Site, l.Upstream, l.Replays = at.Add(time.Hour), "NY", "file", 0 },
	} {
		l := full()
		change(&l)
		l.Key, l.Body = report.NewKey(string(l.Site), string(rune('a'+i))), []byte{byte(i)}
		letters = append(letters, y.put(t, l))
	}
	for _, tt := range []struct {
		what string
		f    Filter
		want []int
	}{
		{"an unknown site", Filter{Site: "nowhere"}, nil},
		{"the beginning of a site", Filter{Site: "NY 12"}, nil},
		{"a wildcard is no site", Filter{Site: "*"}, nil},
		{"two conditions that no letter meets", Filter{Class: report.ClassPoison, Code: report.CodeTimeout}, nil},
		{"everything", Filter{}, []int{0, 1, 2, 3}},
		{"a site", Filter{Site: "NY"}, []int{3}},
		{"a site with a space and a dot", Filter{Site: "NY 12.4"}, []int{0, 1, 2}},
		{"a class", Filter{Class: report.ClassPoison}, []int{0}},
		{"a code", Filter{Code: report.CodeNotFound}, []int{0, 1}},
		{"since, to the nanosecond", Filter{Since: at.Add(time.Hour)}, []int{1}},
		{"since, a moment earlier", Filter{Since: at}, []int{0, 1, 2, 3}},
		{"due before; without a deadline never", Filter{DueBefore: at.Add(time.Hour)}, []int{0, 1}},
		{"due before, a moment later", Filter{DueBefore: at.Add(time.Hour + 1)}, []int{0, 1, 3}},
		{"until, not to the nanosecond", Filter{Until: at.Add(time.Hour)}, []int{0, 2, 3}},
		{"until, a moment later", Filter{Until: at.Add(time.Hour + 1)}, []int{0, 1, 2, 3}},
		{"until the first death", Filter{Until: at}, nil},
		{"since and until", Filter{Since: at.Add(1), Until: at.Add(2 * time.Hour)}, []int{1}},
		{"an upstream", Filter{Upstream: "file"}, []int{3}},
		{"another upstream", Filter{Upstream: "s3://reports"}, []int{0, 1, 2}},
		{"the beginning of an upstream", Filter{Upstream: "s3://report"}, nil},
		{"replayed once", Filter{Replays: 1}, []int{0, 1, 2}},
		{"replayed as often as most are", Filter{Replays: 3}, []int{0, 1, 2}},
		{"replayed more often", Filter{Replays: 4}, []int{2}},
		{"replayed more often than any", Filter{Replays: 6}, nil},
		{"quarantined", Filter{Quarantined: true}, []int{2}},
		{"quarantined, of a class that has none", Filter{Quarantined: true, Class: report.ClassPoison}, nil},
		{"match nothing", Filter{Match: regexp.MustCompile(`^503`)}, nil},
		{"match", Filter{Match: regexp.MustCompile(`HTTP 5\d\d`)}, []int{2}},
		{"several", Filter{Site: "NY 12.4", Code: report.CodeNotFound, Class: report.ClassExhausted}, []int{1}},
	} {
		var whole, heads []Letter
		for _, i := range tt.want {
			l := letters[i]
			whole = append(whole, l)
			l.Body = nil
			heads = append(heads, l)
		}
		if got := collect(t, y.List(t.Context(), tt.f)); !cmp.Equal(got, heads) {
			t.Errorf("list, %s: %s", tt.what, cmp.Diff(heads, got))
		}
		if got := collect(t, y.Export(t.Context(), tt.f)); !cmp.Equal(got, whole) {
			t.Errorf("export, %s: %s", tt.what, cmp.Diff(whole, got))
		}
	}
	for l := range y.List(t.Context(), Filter{}) { // the loop may break
		if l.Sequence != letters[0].Sequence {
			t.Errorf("the first letter is %d", l.Sequence)
		}
		break
	}
}

// The payloads stay on the server.
func TestListReadsHeadersOnly(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := full()
	l.Body = make([]byte, 900<<10)
	l = y.put(t, l)
	for what, tt := range map[string]struct {
		letters iter.Seq2[Letter, error]
		whole   bool
	}{
		"list": {y.List(t.Context(), Filter{}), false}, "export": {y.Export(t.Context(), Filter{}), true},
	} {
		before := y.js.Conn().Stats().InBytes
		if got := collect(t, tt.letters); len(got) != 1 || got[0].Sequence != l.Sequence {
			t.Errorf("%s: %d letters", what, len(got))
		}
		if read := y.js.Conn().Stats().InBytes - before; (read > 900<<10) != tt.whole {
			t.Errorf("%s: %d bytes were read", what, read)
		}
	}
}

// A list does not chase the letters that are put while it is read, nor stumble over those that leave.
func TestListMoves(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	var letters []Letter
	for _, uri := range []string{"a", "b", "c"} {
		letters = append(letters, y.die(t, uri))
	}
	n := 0
	for l, err := range y.List(t.Context(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Sequence != letters[n].Sequence {
			t.Errorf("letter %d is %d, want %d", n, l.Sequence, letters[n].Sequence)
		}
		y.put(t, letters[n]) // it dies again
		y.die(t, "another"+string(rune('a'+n)))
		n++
	}
	if n != len(letters) {
		t.Errorf("%d letters, want %d", n, len(letters))
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	keys := []report.Key{
		report.Key("ab" + strings.Repeat("0", 62)), report.Key("ab" + strings.Repeat("0", 61) + "1"), report.Key("c" + strings.Repeat("f", 63)),
	}
	letters := map[report.Key]Letter{}
	for i, key := range keys {
		l := full()
		l.Key = key
		if i == 0 {
			l.Site = report.NoSite
		}
		letters[key] = y.put(t, l)
	}
	for _, tt := range []struct {
		prefix string
		err    error
		want   report.Key
	}{
		{"b", ErrNotFound, ""},
		{"abc", ErrNotFound, ""},
		{strings.Repeat("d", 64), ErrNotFound, ""},
		{"a", ErrAmbiguous, ""},
		{"AB0", ErrAmbiguous, ""},
		{"c", nil, keys[2]},
		{"CF", nil, keys[2]},
		{string(keys[0]), nil, keys[0]},
		{strings.ToUpper(string(keys[1])), nil, keys[1]},
	} {
		got, err := y.Find(t.Context(), tt.prefix)
		if !errors.Is(err, tt.err) || tt.err == nil && !cmp.Equal(got, letters[tt.want]) {
			t.Errorf("%s: %v %s", tt.prefix, err, cmp.Diff(letters[tt.want], got))
		}
	}
	for _, prefix := range []string{"", "x", "*", ">", "ab ", "a.b", strings.Repeat("a", 65)} {
		if l, err := y.Find(t.Context(), prefix); err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrAmbiguous) {
			t.Errorf("%q: got %+v, %v", prefix, l, err)
		}
	}
}

// Every letter is listed, in order and once, however many there are: also where the server sends them in batches of 500.
func TestListIsWhole(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	put := 0
	for _, n := range []int{0, 1, 500, 501, 1001} {
		for ; put < n; put++ {
			l := full()
			l.Key = report.NewKey("NY", fmt.Sprint(put))
			y.put(t, l)
		}
		got := collect(t, y.List(t.Context(), Filter{}))
		if len(got) != n {
			t.Errorf("%d letters of %d are listed", len(got), n)
			continue
		}
		for i, l := range got {
			if l.Key != report.NewKey("NY", fmt.Sprint(i)) || l.Sequence != uint64(i+1) {
				t.Errorf("of %d letters number %d is %d", n, i, l.Sequence)
				break
			}
		}
	}
}

func TestUrgentFirst(t *testing.T) {
	t.Parallel()
	at := full().FailedAt
	var ranks []Rank // in their order
	for i, r := range []Rank{
		{Due: at.Add(-time.Hour), Died: at.Add(time.Hour)},
		{Due: at, Died: time.Time{}},
		{Due: at, Died: at},
		{Due: at, Died: at},
		{Due: at.Add(1), Died: at.Add(-time.Hour)},
		{Died: time.Time{}},
		{Died: at},
		{Died: at.Add(1)},
		{Died: at.Add(1)},
	} {
		r.Sequence = uint64(i + 1)
		ranks = append(ranks, r)
	}
	for limit := range len(ranks) + 2 {
		for seed := range uint64(20) {
			u := Urgent[uint64]{Limit: limit}
			for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(ranks)) {
				if u.Fits(ranks[i]) {
					u.Add(ranks[i], ranks[i].Sequence)
				}
			}
			var want []uint64
			for i := range ranks {
				if limit == 0 || i < limit {
					want = append(want, uint64(i+1))
				}
			}
			if got := slices.Collect(u.All()); !slices.Equal(got, want) {
				t.Errorf("limit %d, seed %d: got %v, want %v", limit, seed, got, want)
			}
		}
	}
	if got := slices.Collect((&Urgent[int]{}).All()); got != nil {
		t.Errorf("nothing was added, and there is %v", got)
	}
}

// A listed letter says nothing about its payload; an exported one says so when it is empty.
func TestListedLetterHasNoPayload(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := full()
	l.Body = []byte{}
	y.put(t, l)
	listed, exported := collect(t, y.List(t.Context(), Filter{})), collect(t, y.Export(t.Context(), Filter{}))
	found, err := y.Find(t.Context(), string(l.Key))
	if err != nil || len(listed) != 1 || len(exported) != 1 {
		t.Fatalf("%d letters are listed, %d exported, %v", len(listed), len(exported), err)
	}
	for what, tt := range map[string]struct {
		l    Letter
		want bool
	}{"listed": {listed[0], false}, "exported": {exported[0], true}, "found": {found, true}} {
		line, err := json.Marshal(tt.l)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(line), `"payload":""`); has != tt.want || strings.Contains(string(line), `"event"`) {
			t.Errorf("%s: %s", what, line)
		}
	}
}
