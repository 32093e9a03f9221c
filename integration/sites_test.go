package integration_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
)

func TestUnknownSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	w.must(w.sites.Import(t.Context(), []string{"TWR-1", "NY 12.4"}))
	known := []report.Key{w.publish("TWR-1", "s3://reports/a.pdf"), w.publish("NY 12.4", "s3://reports/a.pdf")}
	unknown := []report.Key{w.publish("TWR-2", "s3://reports/a.pdf"), w.publish("NY 12", "s3://reports/a.pdf"), w.publish("twr-1", "s3://reports/a.pdf")}
	w.work()
	w.drain()
	for _, key := range known {
		w.wantRuns(key, 1)
	}
	for i, site := range []string{"TWR-2", "NY 12", "twr-1"} {
		w.wantDeath(w.letter(unknown[i]), death{report.ClassPoison, report.CodeUnknownSite, fmt.Sprintf("site %s is not in the registry", site), 0, 0})
		w.wantRuns(unknown[i], 0)
	}

	// A replay before the repair fails again; after a new import it succeeds, and what that one left out is unknown.
	first := w.letter(unknown[0])
	w.replay(first, dlq.Replayed)
	second := w.dies(unknown[0], first.Sequence)
	if second.Replays != 1 || second.Code != report.CodeUnknownSite {
		t.Errorf("the letter says %d replays, code %s", second.Replays, second.Code)
	}
	w.must(w.sites.Import(t.Context(), []string{"TWR-1", "TWR-2"}))
	w.replay(second, dlq.Replayed)
	dropped := w.publish("NY 12.4", "s3://reports/b.pdf")
	w.drain()
	w.wantRuns(unknown[0], 1)
	if l := w.letter(dropped); l.Code != report.CodeUnknownSite {
		t.Errorf("code %s, want %s", l.Code, report.CodeUnknownSite)
	}
	w.ends(invariant.Tally{Done: 3, Dead: 3})
}

// What was worked before its site was struck off stays done, and a report is known while it is retried.
func TestSiteIsStruckOffWhileItsReportWaits(t *testing.T) {
	t.Parallel()
	struck := make(chan struct{})
	w := newWorld(t, func(ctx context.Context, e report.Event, run int) (report.Result, error) {
		select {
		case <-struck:
			return nil, report.Transient(report.CodeTimeout, fmt.Errorf("run %d", run))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	w.must(w.sites.Import(t.Context(), []string{"TWR-1"}))
	key := w.publish("TWR-1", "s3://reports/a.pdf")
	w.work()
	natstest.Eventually(t, "the work to begin", func() bool { return w.ran(key) == 1 })
	w.must(w.sites.Import(t.Context(), []string{"TWR-2"}))
	close(struck)
	w.drain()
	w.wantDeath(w.letter(key), death{report.ClassPoison, report.CodeUnknownSite, "site TWR-1 is not in the registry", 1, 0})
	w.wantRuns(key, 1)
	w.ends(invariant.Tally{Dead: 1})
}

// An import that was cut off before its marker makes no site unknown, be it the first one or a later one.
func TestImportCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, succeed)
	kv, err := w.js.KeyValue(t.Context(), "reports_sites")
	w.must(err)
	cutOff := func(version string, sites ...string) {
		t.Helper()
		for _, site := range sites {
			_, err := kv.PutString(t.Context(), "site."+string(report.NewToken(site)), version)
			w.must(err)
		}
	}
	n := 0
	publish := func(sites ...string) {
		t.Helper()
		n++
		for _, site := range sites {
			w.publish(site, fmt.Sprint("s3://reports/", n, ".pdf"))
		}
		w.drain()
	}
	w.work()
	cutOff("1", "TWR-1")
	publish("TWR-1", "TWR-2") // there never was a whole import: every site is known

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.sites.Import(ctx, []string{"TWR-1"}); err == nil {
		t.Error("an import whose context is over has succeeded")
	}
	publish("TWR-1", "TWR-2")

	w.must(w.sites.Import(t.Context(), []string{"TWR-1", "TWR-2"}))
	cutOff("9", "TWR-1", "TWR-3") // of a list that leaves TWR-2 out
	publish("TWR-1", "TWR-2")
	for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
		w.must(err)
		t.Errorf("dead: %s of %s", l.Reason, l.SiteID())
	}

	w.must(w.sites.Import(t.Context(), []string{"TWR-1", "TWR-2"})) // the next whole one counts, whatever the cut one has left
	publish("TWR-1", "TWR-2", "TWR-3")
	var dead []string
	for l, err := range w.letters.List(t.Context(), dlq.Filter{}) {
		w.must(err)
		dead = append(dead, l.SiteID())
	}
	if len(dead) != 1 || dead[0] != "TWR-3" {
		t.Errorf("dead are reports of %v, want TWR-3", dead)
	}
	w.ends(invariant.Tally{Done: 8, Dead: 1})
}
