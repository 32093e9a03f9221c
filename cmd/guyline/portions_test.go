package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

func TestInPortions(t *testing.T) {
	t.Parallel()
	rows := func(sizes ...int) func(func(report.Row) bool) {
		return func(yield func(report.Row) bool) {
			for i, size := range sizes {
				if !yield(report.Row{Line: i + 1, Body: make([]byte, size)}) {
					return
				}
			}
		}
	}
	for _, tt := range []struct {
		sizes []int
		want  []int // lengths of the portions
	}{
		{nil, nil},
		{[]int{100}, []int{1}},
		{make([]int, portionRows), []int{portionRows}},
		{make([]int, 2*portionRows+1), []int{portionRows, portionRows, 1}},
		{[]int{portionBytes / 2, portionBytes / 2, 1, 3 * portionBytes, 1}, []int{2, 2, 1}},
	} {
		var got []int
		line := 0
		for portion := range inPortions(rows(tt.sizes...)) {
			got = append(got, len(portion))
			for _, row := range portion {
				if line++; row.Line != line {
					t.Errorf("line %d comes as the %dth", row.Line, line)
				}
			}
		}
		if !slices.Equal(got, tt.want) || line != len(tt.sizes) {
			t.Errorf("%d rows: portions of %v, want %v", len(tt.sizes), got, tt.want)
		}
	}
	n := 0
	for range inPortions(rows(make([]int, 5*portionRows)...)) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("a loop that breaks saw %d", n)
	}
}

// Settled reports are found anywhere in a list that is longer than a portion, and not sent.
func TestPublishOfALongListWithSettledReports(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "testdata/overnight.csv"}, "done 7\n")
	var list strings.Builder
	list.WriteString("site_id,source_uri\n")
	for i := range 1200 {
		if i == 600 {
			list.WriteString("TWR-8842,testdata/reports/twr8842_q2.pdf\n")
		}
		fmt.Fprintf(&list, "TWR-%d,nowhere://%d\n", i%9, i)
	}
	list.WriteString("TWR-1180,testdata/reports/twr1180_q2.pdf\n")
	s.write(t, "list.csv", list.String())
	s.want(t, 0, []string{"publish", "list.csv"}, "accepted 1200\n", "duplicate 0\n", "already done 2\n", "refused 0\n")
	e := s.do(t, strings.Replace(list.String(), "nowhere://7", "nowhere://"+strings.Repeat("7", 2000), 1), "publish", "-", "--json")
	if !strings.Contains(e.stdout, `"accepted":1,"duplicate":1199,"already_done":2`) {
		t.Errorf("published again: %s%s", e.stdout, e.stderr)
	}
}
