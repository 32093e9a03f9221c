package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/config"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/proof"
)

// ledgerAge is after how long the ledger of a server forgets.
func ledgerAge(t *testing.T, js jetstream.JetStream) time.Duration {
	t.Helper()
	s, err := js.Stream(t.Context(), keyvalue.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config.MaxAge
}

func TestLedgerTTL(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js := server.JetStream(t)
	s := newShop(t, "GUYLINE_NATS_URL="+server.URL(), "GUYLINE_LEDGER_TTL=")
	setup := func(ttl string, want time.Duration) {
		t.Helper()
		s.env[1] = "GUYLINE_LEDGER_TTL=" + ttl
		s.want(t, 0, []string{"setup"}, "reports_ledger ready\n")
		if got := ledgerAge(t, js); got != want {
			t.Fatalf("with %q the ledger forgets after %v, want %v", ttl, got, want)
		}
	}
	setup("", 0)
	setup("720h", 720*time.Hour)
	s.want(t, exitPerson, []string{"show", "TWR-1", "a.pdf"}, "or settled more than 30 days ago, and forgotten")
	s.want(t, exitPerson, []string{"show", "TWR-1", "a.pdf", "--json"}, `"settled_forgotten_after":"720h"`)
	s.want(t, exitPerson, []string{"why", "TWR-1", "a.pdf"}, "or settled before ", "the ledger forgets a settled report after 30 days.")
	s.write(t, "list.csv", "site_id,source_uri\nTWR-1,a.pdf\n")
	s.want(t, exitPerson, []string{"reconcile", "list.csv"}, "unknown 1 never handed over under this site and source; or settled more than 30 days ago, and forgotten\n")
	s.want(t, 0, []string{"doctor"}, "note KV_reports_ledger: it forgets settled reports after 30 days, as GUYLINE_LEDGER_TTL says")
	setup("168h", 168*time.Hour)
	setup("0", 0)

	// An age of the operator's own stays until a TTL is set, and the doctor tells.
	if err := keyvalue.KeepLedger(t.Context(), js, 1000*time.Hour, false); err != nil {
		t.Fatal(err)
	}
	s.env[1] = "GUYLINE_LEDGER_TTL="
	if e := s.want(t, exitPerson, []string{"setup"}); !strings.Contains(e.stderr, "or say with GUYLINE_LEDGER_TTL that it is meant") || ledgerAge(t, js) != 1000*time.Hour {
		t.Errorf("setup says:\n%s", e.stderr)
	}
	s.env[1] = "GUYLINE_LEDGER_TTL=1000h"
	s.want(t, 0, []string{"setup"})

	// Signed results must stay.
	setup("0", 0)
	if _, err := js.Publish(t.Context(), "reports.checkpoints.note", []byte("a checkpoint")); err != nil {
		t.Fatal(err)
	}
	s.env[1] = "GUYLINE_LEDGER_TTL=720h"
	if e := s.want(t, exitUsage, []string{"setup"}); !strings.Contains(e.stderr, "the ledger is signed") || ledgerAge(t, js) != 0 {
		t.Errorf("a TTL on a ledger that is signed:\n%s", e.stderr)
	}
}

// What the ledger holds is let go only by setup, and after a question.
func TestLedgerForgetsAtOnce(t *testing.T) {
	t.Parallel()
	js, ctx := natstest.Start(t).JetStream(t), t.Context()
	if err := errors.Join(keyvalue.Setup(ctx, js, 1), proof.Setup(ctx, js, 1)); err != nil {
		t.Fatal(err)
	}
	ledger, err := keyvalue.OpenLedger(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Commit(ctx, keyvalue.Entry{State: keyvalue.Done, SiteID: "TWR-1", SourceURI: "a.pdf"}); err != nil {
		t.Fatal(err)
	}
	const short = 100 * time.Millisecond
	natstest.Eventually(t, "the entry to be old enough", func() bool {
		s, err := js.Stream(ctx, keyvalue.LedgerStream)
		return err == nil && s.CachedInfo().TimeStamp.Sub(s.CachedInfo().State.FirstTime) > short
	})
	a := &app{stdin: strings.NewReader("y\n"), stderr: io.Discard, cfg: config.Config{LedgerTTL: config.TTL{Set: true, Kept: short}}}
	for as, want := range map[access]string{
		writes: "settled reports would be forgotten at once: the oldest is of " + time.Now().UTC().Format("2006-"),
		serves: ", and what is published again is worked again: `guyline setup --yes` does that",
		setsUp: ", and what is published again is worked again: say so with --yes",
	} {
		err := a.keepLedger(ctx, js, as)
		if _, usage := errors.AsType[usageError](err); !usage || !strings.Contains(err.Error(), want) || ledgerAge(t, js) != 0 {
			t.Errorf("access %d: %v, want %s", as, err, want)
		}
	}
	a.forget = true
	if err := a.keepLedger(ctx, js, setsUp); err != nil || ledgerAge(t, js) != short {
		t.Errorf("with --yes: %v", err)
	}
}

// What is forgotten is unknown, cannot be signed, and is worked again when it is published again.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	publish := []string{"publish", "--site", "TWR-8842", "--uri", "testdata/reports/twr8842_q2.pdf"}
	s.want(t, 0, publish, "accepted 1\n")
	s.want(t, 0, []string{"run", "--drain"}, "done 1\n")
	s.want(t, 0, publish, "already done 1\n")
	s.want(t, 0, []string{"run", "--drain"}, "done 0\n")

	s.bury(t) // holds the store
	js, err := jetstream.New(s.connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := keyvalue.KeepLedger(t.Context(), js, 100*time.Millisecond, true); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the report to be forgotten", func() bool {
		return s.do(t, "", "show", "TWR-8842", "testdata/reports/twr8842_q2.pdf").code == exitPerson
	})
	s.want(t, exitPerson, []string{"show", "TWR-8842", "testdata/reports/twr8842_q2.pdf"}, "fate unknown\n", "or settled more than 100ms ago, and forgotten\n")
	s.keygen(t)
	if e := s.want(t, exitFailed, []string{"audit", "checkpoint", "--key", "key"}); !strings.Contains(e.stderr, "the ledger forgets results after 100ms") {
		t.Errorf("a checkpoint of it:\n%s", e.stderr)
	}
	s.want(t, 0, []string{"audit", "verify"})
	s.want(t, 0, publish, "accepted 1\n")
}
