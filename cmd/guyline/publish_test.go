package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/stream"
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

// A list that is interrupted says how far it came. What was on its way may have arrived too, and is recognised.
func TestPublishInterrupted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	srv := natstest.StartSynced(t) // so slow that the signal comes in time
	s.env = []string{"GUYLINE_NATS_URL=" + srv.URL()}
	s.want(t, 0, []string{"setup"})
	var list strings.Builder
	list.WriteString("site_id,source_uri\n")
	for i := range 60000 {
		fmt.Fprintf(&list, "TWR-%d,nowhere://%d\n", i%9, i)
	}
	s.write(t, "list.csv", list.String())
	js := srv.JetStream(t)
	stored := func() uint64 {
		r, err := js.Stream(t.Context(), stream.Reports)
		if err != nil {
			t.Fatal(err)
		}
		return r.CachedInfo().State.Msgs
	}
	p := s.background(t, "publish", "list.csv")
	natstest.Eventually(t, "some receipts", func() bool { return stored() > 5000 })
	e := p.stop(syscall.SIGINT)
	var accepted uint64
	if n, err := fmt.Sscanf(e.stderr, "guyline: interrupted after %d accepted; publish the list again, what the queue has is recognised\n", &accepted); n != 1 || err != nil ||
		e.code != exitFailed || strings.Count(e.stderr, "\n") != 1 {
		t.Fatalf("exit %d\n%s", e.code, e.stderr)
	}
	if now := stored(); accepted == 0 || accepted > now || now >= 60000 {
		t.Errorf("accepted %d, stored %d", accepted, now)
	}
}
