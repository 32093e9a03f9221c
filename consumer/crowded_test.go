package consumer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

// slowly succeeds after a while, whatever its context says.
func slowly(d time.Duration) run {
	return func(ctx context.Context) (report.Result, error) {
		<-time.After(d)
		return succeed(ctx)
	}
}

// Retries that are due wait their turn while the only worker is busy, longer than all deliveries of one report could take. The
// sweep leaves them alone.
func TestSweepLeavesTheQueueAlone(t *testing.T) {
	t.Parallel()
	const reports = 60
	cfg := quick()
	cfg.Workers = 1
	cfg.Queues.MaxAttempts = 2
	cfg.Queues.AckWait = time.Second
	cfg.AttemptTimeout = time.Second
	cfg.Backoff = report.Backoff{Base: 50 * time.Millisecond, Max: 50 * time.Millisecond} // 4 x 2.05 s are over before the queue is
	w := newWorld(t, cfg, script{})
	for i := range reports {
		site := fmt.Sprint("S", i)
		w.script[site] = []run{fail, slowly(200 * time.Millisecond)}
		w.publish(site)
	}
	w.start()
	for i := range reports {
		w.await(fmt.Sprint("S", i), Succeeded)
	}
	w.check(invariant.Tally{Done: reports})
	for i := range reports {
		if site := fmt.Sprint("S", i); w.ran(site) != 2 {
			t.Errorf("%s ran %d times, want 2", site, w.ran(site))
		}
	}
}

// While delayed reports fill MaxAckPending no pull is answered with a report. None is left open behind that, or a report
// would be delivered without a slot.
func TestFullOfDelayed(t *testing.T) {
	t.Parallel()
	const delayed, fresh = 5, 10
	cfg := quick()
	cfg.Workers = 2
	cfg.Queues.MaxAckPending = delayed
	cfg.Queues.AckWait = 5 * time.Second
	cfg.Backoff = report.Backoff{Base: 5 * time.Second, Max: 5 * time.Second}
	w := newWorld(t, cfg, script{})
	for i := range delayed {
		site := fmt.Sprint("D", i)
		w.script[site] = []run{fail, slowly(6 * time.Second)}
		w.publish(site)
	}
	for i := range fresh {
		site := fmt.Sprint("F", i)
		w.script[site] = []run{succeed}
		w.publish(site)
	}
	w.start()
	w.check(invariant.Tally{Done: delayed + fresh})
	for i := range delayed {
		if site := fmt.Sprint("D", i); w.ran(site) != 2 {
			t.Errorf("%s ran %d times, want 2", site, w.ran(site))
		}
	}
	for i := range fresh {
		if site := fmt.Sprint("F", i); w.ran(site) != 1 {
			t.Errorf("%s ran %d times, want once", site, w.ran(site))
		}
	}
}

// Somebody has deleted an entry of the ledger, or written something else into it. The one report is worked anew, the other
// left alone, and neither holds up others.
func TestLedgerTamperedWith(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.Queues.AckWait = 500 * time.Millisecond
	cfg.Queues.MaxAttempts = 50
	w := newWorld(t, cfg, script{"DELETED": times(50, succeed), "GARBLED": times(50, succeed), "OTHER": times(50, succeed)})
	kv, err := w.js.KeyValue(t.Context(), "reports_ledger")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(site string) string { return site + "." + string(report.NewKey(site, uri(site))) }
	for _, site := range []string{"DELETED", "GARBLED"} {
		if _, err := kv.Put(t.Context(), entry(site), []byte("?")); err != nil {
			t.Fatal(err)
		}
	}
	if err := kv.Delete(t.Context(), entry("DELETED")); err != nil {
		t.Fatal(err)
	}
	w.publish("GARBLED")
	w.publish("DELETED")
	w.start()
	w.await("GARBLED", LeftAlone)
	w.await("DELETED", Succeeded)
	w.publish("OTHER")
	w.await("OTHER", Succeeded)
	if err := kv.Delete(t.Context(), entry("GARBLED")); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the garbled entry's report to be worked", func() bool { return w.saw("GARBLED", Succeeded) > 0 })
	w.check(invariant.Tally{Done: 3})
}
