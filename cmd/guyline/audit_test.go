package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/report"
)

// keygen makes a key; the public half is in the file key.pub.
func (s *shop) keygen(t *testing.T) {
	t.Helper()
	e := s.want(t, 0, []string{"audit", "keygen", "--name", "office", "--out", "key"}, "office+")
	s.write(t, "key.pub", e.stdout)
	if fi, err := os.Stat(filepath.Join(s.dir, "key")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the private key's file: %v, %v", fi, err)
	}
}

// The story of one night, from the signature to a proof that is checked elsewhere.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_MAX_ATTEMPTS=1")
	s.keygen(t)
	if e := s.want(t, exitUsage, []string{"audit", "keygen", "--out", "key"}); !strings.Contains(e.stderr, "never overwritten") {
		t.Errorf("keygen again: %s", e.stderr)
	}
	s.want(t, exitUsage, []string{"audit", "verify"}) // there is no store
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "testdata/overnight.csv"}, "dead-lettered 4\n")
	s.want(t, 0, []string{"audit", "verify"}, "results 7\n", "letters 4 as", "No checkpoint says so")
	s.want(t, exitFailed, []string{"audit", "prove", "TWR-9017", "testdata/reports/twr9017_q2.pdf"})

	e := s.want(t, 0, []string{"audit", "checkpoint", "--key", "key", "--out", "newest"}, "guyline/REPORTS_AUDIT/", "\nledger 7 7 ", "\n\n— office ")
	if kept, err := os.ReadFile(filepath.Join(s.dir, "newest")); err != nil || string(kept) != e.stdout {
		t.Errorf("%v: the file has %q, printed was %q", err, kept, e.stdout)
	}
	s.write(t, "first", e.stdout)
	s.want(t, 0, []string{"audit", "checkpoint", "--key", "key", "--out", "newest", "--json"}, `"signed_by":"office+`, `"results":7`)
	s.want(t, 0, []string{"audit", "verify", "--pubkey", "key.pub", "--since-checkpoint", "first"}, "checkpoints 2 fit\ngiven file fits\nnewest of 20", "The first 4 events")
	s.want(t, 0, []string{"audit", "verify"}, "That proves little")
	s.want(t, 0, []string{"audit", "verify", "--since-checkpoint", "first"}, "with --pubkey its signature is checked too")
	s.want(t, 0, []string{"audit", "verify", "--json"}, `"findings":[]`, `"checkpoints_fit":2`)
	if e := s.want(t, exitFailed, []string{"audit", "restart", "--reason", "why not"}); !strings.Contains(e.stderr, "nothing to restart") {
		t.Errorf("restart: %s", e.stderr)
	}

	s.write(t, "dead.json", s.want(t, 0, []string{"audit", "prove", "TWR-9017", "testdata/reports/twr9017_q2.pdf", "--pubkey", "key.pub"}).stdout)
	s.write(t, "done.json", s.want(t, 0, []string{"audit", "prove", "TWR-8842", "testdata/reports/twr8842_q2.pdf"}).stdout)
	elsewhere := newShop(t) // with neither store nor key, but the public one
	for _, name := range []string{"dead.json", "done.json", "key.pub"} {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere.write(t, name, string(text))
	}
	elsewhere.want(t, 0, []string{"audit", "check", "dead.json", "--pubkey", "key.pub"}, "twr9017_q2.pdf of site TWR-9017 (key f481833d27b6) had not landed at ",
		"it died on ", "after 1 attempt, poison, malformed-pdf: ", "Signed by office+", "Not proved: what came later")
	elsewhere.want(t, 0, []string{"audit", "check", "done.json", "--pubkey", "key.pub"}, " landed: settled at ", `"site_id":"TWR-8842"`)
	elsewhere.want(t, 0, []string{"audit", "check", "done.json", "--pubkey", "key.pub", "--json"}, `"landed":true`)
	dead, _ := os.ReadFile(filepath.Join(s.dir, "dead.json"))
	for what, text := range map[string]string{
		"another source": strings.Replace(string(dead), "twr9017_q2.pdf", "twr9018_q2.pdf", 1), "cut off": string(dead[:len(dead)/2]), "nothing": "",
	} {
		if e := elsewhere.do(t, text, "audit", "check", "-", "--pubkey", "key.pub"); e.code != exitPerson || e.stdout != "" {
			t.Errorf("%s: exit %d: %s%s", what, e.code, e.stdout, e.stderr)
		}
	}
	other := newShop(t)
	other.keygen(t)
	other.write(t, "dead.json", string(dead))
	if e := other.want(t, exitPerson, []string{"audit", "check", "dead.json", "--pubkey", "key.pub"}); !strings.Contains(e.stderr, "not signed by a known key") {
		t.Errorf("with another key: %s", e.stderr)
	}
}

// While a worker holds the store the commands go through it. Somebody tampers with the trail, and it is restored.
func TestAuditBesideAWorker(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_MAX_ATTEMPTS=1")
	s.keygen(t)
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "testdata/overnight.csv"}, "dead-lettered 4\n")
	w := s.worker(t)
	if e := s.want(t, exitFailed, []string{"audit", "checkpoint", "--key", "key"}); !strings.Contains(e.stderr, "younger than 2m30s") {
		t.Errorf("another process's store may sync late: %s", e.stderr)
	}
	s.want(t, 0, []string{"audit", "checkpoint", "--key", "key", "--out", "newest", "--older-than", "0"}, "\n4\n")
	s.want(t, 0, []string{"audit", "verify", "--pubkey", "key.pub", "--since-checkpoint", "newest"}, "findings 0\n")

	js, err := jetstream.New(s.connect(t))
	if err != nil {
		t.Fatal(err)
	}
	trail, err := js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	second, err := trail.GetMsg(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), audit.Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), trail.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), second.Subject, second.Data); err != nil {
		t.Fatal(err)
	}
	s.want(t, exitPerson, []string{"audit", "verify", "--pubkey", "key.pub"}, "event 1: the event was removed\n", "event 3: the events 3 to 4 were cut off\n",
		"has not recorded this death\n", "findings 6\n", "Something is not as it was written or signed.")
	s.want(t, exitPerson, []string{"audit", "verify", "--json"}, `"what":"checkpoint"`)
	if e := s.want(t, exitPerson, []string{"audit", "checkpoint", "--key", "key", "--older-than", "0"}); e.stdout != "" || !strings.Contains(e.stderr, "nothing is signed") {
		t.Errorf("checkpoint: %s%s", e.stdout, e.stderr)
	}
	e := s.want(t, 0, []string{"audit", "restart", "--reason", "restored from a backup", "--since-checkpoint", "newest", "--actor", "ada@office"},
		"recorded, by ada@office because restored from a backup; checkpoints that no longer fit: 1\n", "guyline audit checkpoint --key FILE --out newest --give-up ")
	giveUp := strings.TrimSpace(e.stdout[strings.LastIndex(e.stdout, " ")+1:])
	s.want(t, exitPerson, []string{"audit", "verify", "--pubkey", "key.pub"}, "but no signed checkpoint does)\n", "findings 7\n")
	if e := s.want(t, exitPerson, []string{"audit", "checkpoint", "--key", "key", "--out", "newest", "--older-than", "0"}); e.stdout != "" {
		t.Errorf("checkpoint on the word of the restart alone: %s", e.stdout)
	}
	for _, wrong := range []string{"0", strings.ToUpper(giveUp), strings.Repeat("0", 64)} {
		s.want(t, exitUsage, []string{"audit", "checkpoint", "--key", "key", "--out", "newest", "--give-up", wrong})
	}
	letters, err := js.Stream(t.Context(), dlq.Stream) // the backup has only the one whose death it has
	if err != nil {
		t.Fatal(err)
	}
	info, err := letters.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		if strings.TrimPrefix(subject, "reports.dlq.") != strings.TrimPrefix(second.Subject, "reports.audit.") {
			if err := letters.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.want(t, exitPerson, []string{"audit", "verify", "--since-checkpoint", "newest"}, "the given file: ", "(a restart by ada@office gives it up because restored from a backup, ")
	if e := s.want(t, 0, []string{"audit", "checkpoint", "--key", "key", "--out", "newest", "--give-up", giveUp, "--older-than", "0"}, "\ngives-up "+giveUp+"\n"); !strings.Contains(e.stderr, "given up: the checkpoint "+giveUp) {
		t.Errorf("giving up: %s", e.stderr)
	}
	s.want(t, 0, []string{"audit", "verify", "--pubkey", "key.pub", "--since-checkpoint", "newest"},
		"was given up under a signature, by ada@office at ", " because restored from a backup\n", "findings 0\n")
	w.stop(syscall.SIGTERM)
}

func TestAuditWrongUsage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.keygen(t)
	s.want(t, 0, []string{"setup"}, proof.Stream+" ready\n")
	s.write(t, "shopping", "milk\n")
	text, err := os.ReadFile(filepath.Join(s.dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	private := string(text)
	secret := strings.TrimSpace(private[len(private)-30:])
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"keygen"}, "needs --out"},
		{[]string{"keygen", "--out", "x", "--name", "two words"}, "no spaces"},
		{[]string{"keygen", "--out", "x", "--name", "a\x1b[31mb"}, "all printable"},
		{[]string{"keygen", "--out", "x", "--name", "a\u202eb"}, "all printable"},
		{[]string{"checkpoint"}, "--key FILE"},
		{[]string{"checkpoint", "--key", private}, "name of the file"},
		{[]string{"checkpoint", "--key", "\n" + private}, "name of the file"},
		{[]string{"verify", "--pubkey", private}, "private key"},
		{[]string{"verify", "--pubkey", " " + private}, "private key"},
		{[]string{"checkpoint", "--key", "key", "--older-than", "-1h"}, "below 0"},
		{[]string{"checkpoint", "--key", "key", "--out", "shopping"}, "not a checkpoint"},
		{[]string{"checkpoint", "--key", "key", "--give-up", "9f86"}, "64 hex digits"},
		{[]string{"restart", "--reason", "a slip", "--since-checkpoint", "shopping"}, "not a checkpoint"},
		{[]string{"checkpoint", "--key", "missing"}, "no such file"},
		{[]string{"checkpoint", "--key", "key.pub"}, "it is a public key"},
		{[]string{"checkpoint", "--key", "shopping"}, "not a key"},
		{[]string{"verify", "--pubkey", "key"}, "it is a private key"},
		{[]string{"verify", "--pubkey", "missing"}, "neither a public key nor a file"},
		{[]string{"verify", "--since-checkpoint", "missing"}, "no such file"},
		{[]string{"restart"}, "needs a --reason"},
		{[]string{"restart", "--reason", " "}, "needs a --reason"},
		{[]string{"prove"}, "the form is `guyline audit prove {SITE URI | KEY}`; arguments given: 0"},
		{[]string{"prove", "628a"}, "whole key"},
		{[]string{"check", "shopping"}, "--pubkey"},
		{[]string{"check", "missing", "--pubkey", "key.pub"}, "no such file"},
	} {
		e := s.want(t, exitUsage, append([]string{"audit"}, tt.args...))
		if !strings.Contains(e.stderr, tt.want) {
			t.Errorf("%v: no %q in %s", tt.args, tt.want, e.stderr)
		}
		if said := e.stdout + e.stderr; strings.Contains(said, strings.TrimSpace(private)) || strings.Contains(said, secret) || strings.ContainsAny(said, "\x1b\u202e") {
			t.Errorf("%v: it says %q", tt.args, said)
		}
	}
	s.want(t, 0, []string{"audit", "verify"}, "events 0\n")
	if e := s.want(t, exitFailed, []string{"audit", "checkpoint", "--key", "key"}); !strings.Contains(e.stderr, "nothing to sign yet") {
		t.Errorf("an empty store: %s", e.stderr)
	}
	s.want(t, exitPerson, []string{"audit", "verify", "--since-checkpoint", "shopping"}, "the given file: it is not a checkpoint")
	if err := os.Chmod(filepath.Join(s.dir, "key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e := s.want(t, exitFailed, []string{"audit", "checkpoint", "--key", "key"}); !strings.Contains(e.stderr, "others can read") {
		t.Errorf("a key that others can read: %s", e.stderr)
	}
}

// What somebody has put into the trail that is not an event stays there for good. What comes after it is shown all the same.
func TestAuditLogBesideTheUnreadable(t *testing.T) {
	t.Parallel()
	s := newShop(t, "GUYLINE_MAX_ATTEMPTS=1")
	s.worker(t)
	js, err := jetstream.New(s.connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "reports.audit.x.y", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	after := audit.Event{Time: time.Now().UTC(), Kind: audit.Discard, Key: report.NewKey("TWR 1", "a.pdf"), SiteID: "TWR 1", Actor: "ada@office"}
	if err := audit.New(js).Append(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"audit", "log"}, {"audit", "log", "--json"}} {
		if e := s.want(t, exitFailed, args, "ada@office"); !strings.Contains(e.stderr, "not an event: sequence 1") {
			t.Errorf("%q: %s", args, e.stderr)
		}
	}
}

// On a server that was set up by an older version the stream of checkpoints is missing.
func TestAuditBeforeSetup(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	s := newShop(t, "GUYLINE_NATS_URL="+server.URL())
	s.want(t, 0, []string{"setup"}, proof.Stream+" ready\n")
	if err := server.JetStream(t).DeleteStream(t.Context(), proof.Stream); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"audit", "verify"}, {"audit", "restart", "--reason", "x"}, {"audit", "prove", "TWR-1", "a.pdf"}} {
		if e := s.want(t, exitFailed, args); !strings.Contains(e.stderr, "`guyline setup` makes what is missing") {
			t.Errorf("%v: %s", args, e.stderr)
		}
	}
	s.want(t, 0, []string{"setup"})
	s.want(t, 0, []string{"audit", "verify"}, "events 0\n", "findings 0\n")
}
