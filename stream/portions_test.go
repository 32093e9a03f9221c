package stream

import (
	"slices"
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
