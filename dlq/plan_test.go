package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// dieAs publishes a report and lets it die, with a letter that the change has altered.
func (y yard) dieAs(t testing.TB, uri string, change func(*Letter)) Letter {
	t.Helper()
	m := y.publish(t, uri)
	l := letterOf(m, "unparseable structure in "+uri)
	change(&l)
	l = y.put(t, l)
	if err := errors.Join(y.RecordDeath(context.Background(), l), y.queues.Delete(context.Background(), m.Ref)); err != nil {
		t.Fatal(err)
	}
	return l
}

// land settles a report.
func (y yard) land(t testing.TB, uri string) {
	t.Helper()
	if _, err := y.ledger.Commit(context.Background(), keyvalue.Entry{State: keyvalue.Done, SiteID: "TWR 1", SourceURI: uri}); err != nil {
		t.Fatal(err)
	}
}

func (y yard) plan(t testing.TB, o PlanOptions) Plan {
	t.Helper()
	p, err := y.Plan(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	no := time.Duration(-1)
	names := map[report.Key]string{}
	for _, l := range []struct {
		uri       string
		age, due  time.Duration // due: from now; no = none
		replays   int
		code      report.Code
		reopened  uint64
		committed bool
	}{
		{"young", time.Minute, no, 0, report.CodeNotFound, 0, false},
		{"old", time.Hour, no, 0, report.CodeTimeout, 0, false},
		{"due later", time.Second, 49 * time.Hour, 0, report.CodeTimeout, 0, false},
		{"due soon", time.Second, 47 * time.Hour, DefaultReplayMax - 1, report.CodeTimeout, 0, false},
		{"overdue", time.Second, -47 * time.Hour, 0, report.CodeNotFound, 0, false},
		{"too often", 9 * time.Hour, no, DefaultReplayMax, report.CodeTimeout, 0, false},
		{"landed", 8 * time.Hour, time.Hour, 0, report.CodeConnection, 0, true},
		{"landed, too often", 7 * time.Hour, no, DefaultReplayMax, report.CodeConnection, 0, true},
		{"reopened since", 2 * time.Hour, no, 0, report.CodeTimeout, 1000, true},
		{"from the future", -time.Hour, no, 0, report.CodeTimeout, 0, false},
		{"rests", 6 * time.Hour, no, 1, report.CodeTimeout, 0, false},
	} {
		letter := y.dieAs(t, l.uri, func(out *Letter) {
			out.FailedAt, out.Replays, out.Code, out.Reopened = now.Add(-l.age), l.replays, l.code, l.reopened
			if l.due != no {
				out.Due = now.Add(l.due)
			}
		})
		names[letter.Key] = l.uri
		if l.committed {
			y.land(t, l.uri)
		}
	}
	all := []string{
		"overdue", "landed", "due soon", "due later", // by due
		"landed, too often", "reopened since", "old", "young", "from the future", // by age
	}
	p := y.plan(t, PlanOptions{Rested: func(c Candidate) bool { return names[c.Key] != "rests" }})
	if got := order(p, names); !slices.Equal(got, all) {
		t.Errorf("order %q, want %q", got, all)
	}
	p.Send = nil
	if want := (Plan{Matched: 11, Landed: 2, Quarantined: 1, DueSoon: 2, Causes: []Cause{
		{report.ClassPoison, report.CodeTimeout, "s3://reports", 5}, {report.ClassPoison, report.CodeNotFound, "s3://reports", 2},
	}}); !cmp.Equal(p, want) {
		t.Error(cmp.Diff(want, p))
	}

	p = y.plan(t, PlanOptions{Limit: 3})
	if got := order(p, names); !slices.Equal(got, all[:3]) || p.Matched != 11 || len(p.Causes) != 2 || p.DueSoon != 2 {
		t.Errorf("of three: %q, %+v", got, p)
	}
	p = y.plan(t, PlanOptions{Filter: Filter{Code: report.CodeNotFound}})
	if got := order(p, names); !slices.Equal(got, []string{"overdue", "young"}) || p.Matched != 2 {
		t.Errorf("of one code: %q, %+v", got, p)
	}
	if p := y.plan(t, PlanOptions{Filter: Filter{Site: "TWR 2"}}); !cmp.Equal(p, Plan{}) {
		t.Errorf("of none: %+v", p)
	}
	if got := len(collect(t, y.List(t.Context(), Filter{}))); got != 11 || len(y.queued(t)) != 0 {
		t.Errorf("after planning %d letters and %d copies", got, len(y.queued(t)))
	}

	y.js.Conn().Close()
	if _, err := y.Plan(t.Context(), PlanOptions{}); err == nil {
		t.Error("without a server there is no error")
	}
}

// What is of one letter says so.
func TestPlanCandidate(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	due := time.Now().UTC().Add(time.Hour).Truncate(time.Millisecond)
	l := y.dieAs(t, "a.pdf", func(l *Letter) { l.Due, l.Replays = due, 2 })
	want := []Candidate{{
		Sequence: l.Sequence, Key: l.Key, Site: l.Site, Class: l.Class, Code: l.Code, Upstream: l.Upstream, Due: due, FailedAt: l.FailedAt, Replays: 2,
	}}
	if p := y.plan(t, PlanOptions{}); !cmp.Equal(p.Send, want) {
		t.Error(cmp.Diff(want, p.Send))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := y.Plan(ctx, PlanOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPlanOf(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	a := y.dieAs(t, "a.pdf", func(l *Letter) { l.Replays = DefaultReplayMax })
	b, _ := y.die(t, "b.pdf"), y.die(t, "c.pdf")
	for force, want := range map[bool]string{false: fmt.Sprint([]uint64{b.Sequence}), true: fmt.Sprint([]uint64{a.Sequence, b.Sequence})} {
		p, err := y.PlanOf(t.Context(), []Letter{a, b}, PlanOptions{Force: force})
		if err != nil || p.Matched != 2 || sequences(p.Send) != want || p.Quarantined != 2-len(p.Send) {
			t.Errorf("force %v: %+v, %v", force, p, err)
		}
	}
}

// What strangers have put beside the letters, or into the ledger, does not keep the others from being replayed.
func TestReplayAllBesideStrangers(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	letters := []Letter{y.die(t, "a.pdf"), y.die(t, "b.pdf"), y.die(t, "c.pdf")}
	for _, subject := range []string{"reports.dlq.X.\x1b[31mkey", "reports.dlq.=2.068a", "reports.dlq.TWR=2." + string(letters[0].Key)} {
		if _, err := y.js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := y.js.Publish(t.Context(), "$KV.reports_ledger."+string(letters[1].Site)+"."+string(letters[1].Key), []byte("?")); err != nil {
		t.Fatal(err)
	}
	p := y.plan(t, PlanOptions{})
	if p.Matched != 3 {
		t.Errorf("%d letters are ours", p.Matched)
	}
	tally, err := y.ReplayAll(t.Context(), p.Send, Bulk{By: operator})
	if want := (Tally{ByOutcome: map[Outcome]int{Replayed: 2, Unreadable: 1}, Sent: 2}); err != nil || !cmp.Equal(tally, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, tally))
	}
	y.copies(t, []Letter{letters[0], letters[2]})
}

func order(p Plan, names map[report.Key]string) (order []string) {
	for _, c := range p.Send {
		order = append(order, names[c.Key])
	}
	return order
}
