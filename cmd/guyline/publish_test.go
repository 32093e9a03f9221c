package main

import (
	"fmt"
	"strings"
	"testing"
)

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
