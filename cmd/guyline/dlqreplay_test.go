package main

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// A dry run says what would be done, and does nothing.
func TestReplayDryRun(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	y.want(t, 0, []string{"dlq", "replay", "--all", "--dry-run"}, "matched 0\n", "to replay 0\n", "\nnothing was sent\n")
	y.dead(t, 11)
	y.want(t, 0, []string{"dlq", "replay", "--all", "--dry-run", "--rate", "2/s", "--limit", "7"},
		"matched 11\n", "to replay 7\n", "due soon 0 ", "landed 0 ", "quarantined 0 ", "left 4 over the limit\n", "takes 3s at 2 a second\n",
		"\n7 poison forbidden s3://reports\n", "\nnothing was sent\n")
	y.want(t, 0, []string{"dlq", "replay", "--code", "forbidden", "--dry-run", "--json"},
		`{"matched":11,"replay":11,"landed":0,"quarantined":0,"due_within_48h":0,"causes":[{"class":"poison","code":"forbidden","upstream":"s3://reports","count":11}]}`+"\n")
	y.want(t, 0, []string{"dlq", "replay", "--code", "timeout", "--dry-run", "--json"}, `"matched":0,`, `"causes":[]`)
	y.want(t, 0, []string{"dlq", "replay", y.published[0].Short(), "--dry-run"}, "matched 1\n", "\n1 poison forbidden s3://reports\n")
	if letters, queued := y.stored(t, dlq.Stream), y.stored(t, stream.Requeued); letters != 11 || queued != 0 {
		t.Errorf("afterwards %d letters and %d copies", letters, queued)
	}
	invariant.Check(t, y.js, y.published...)
}

// Without anybody who works, a canary is refused before anything is sent.
func TestReplayCanaryNeedsAWorker(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	y.dead(t, 3)
	args := []string{"dlq", "replay", "--all", "--yes", "--canary", "1"}
	if e := y.want(t, exitFailed, args); !strings.Contains(e.stderr, "no worker takes reports") || !strings.Contains(e.stderr, "guyline run") {
		t.Errorf("it says %s", e.stderr)
	}
	if letters, queued := y.stored(t, dlq.Stream), y.stored(t, stream.Requeued); letters != 3 || queued != 0 {
		t.Errorf("afterwards %d letters and %d copies", letters, queued)
	}
	y.work(t, lives)
	y.want(t, 0, args, "replayed 3 in the queue again\ncanary 1 of 1 have landed\n")

	s := newShop(t) // nobody can work in a store that the command itself holds
	s.write(t, "list.csv", "site_id,source_uri\nTWR-1,nowhere://1.pdf\n")
	s.want(t, exitPerson, []string{"run", "--drain", "--publish", "list.csv"})
	if e := s.want(t, exitFailed, args); !strings.Contains(e.stderr, "no worker takes reports") {
		t.Errorf("it says %s", e.stderr)
	}
	s.want(t, 0, []string{"status"}, "waiting 0\n", "dead 1 ")
}

// Most of the canary dies again: the rest is not sent.
func TestReplayCanaryStops(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	y.dead(t, 20)
	y.work(t, diesAgain)
	e := y.want(t, exitPerson, []string{"dlq", "replay", "--all", "--yes", "--canary", "3"}, "replayed 3 in the queue again\ncanary 0 of 3 have landed\nleft 17 not begun\n")
	if want := "a canary of 3 goes first, and is waited for\nstopped: most of the canary did not land: 3 of 3 died again (3 x forbidden)\n"; e.stderr != want {
		t.Errorf("it says %q, want %q", e.stderr, want)
	}
	y.want(t, exitPerson, []string{"dlq", "replay", "--all", "--yes", "--canary", "3", "--json"},
		`{"matched":20,"outcomes":{"replayed":3},"quarantined":0,"canary_died":3,"stopped":"most of the canary did not land: 3 of 3 died again (3 x forbidden)","left":17}`)
	if tally := invariant.Check(t, y.js, y.published...); tally.Dead != 20 {
		t.Errorf("afterwards %+v", tally)
	}
}

// Complaint 19: what was replayed too often is left alone, and goes by its key only, when forced.
func TestReplayQuarantined(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t, "GUYLINE_REPLAY_MAX=1")
	y.dead(t, 2)
	y.work(t, diesAgain)
	dieAgain := func(sequence uint64) {
		natstest.Eventually(t, "the report to die again", func() bool {
			l, err := y.letters.Current(t.Context(), "*", y.published[0])
			return err == nil && l.Sequence > sequence
		})
	}
	key := y.published[0].Short()
	y.want(t, 0, []string{"dlq", "replay", key}, "replayed 1 ")
	dieAgain(2)
	y.want(t, 0, []string{"dlq", "replay", "--all", "--dry-run"}, "matched 2\n", "to replay 1\n", "quarantined 1 replayed 1 times or more; left alone\n")
	if e := y.want(t, exitFailed, []string{"dlq", "replay", key, string(y.published[1])}); !strings.Contains(e.stderr, key+" (TWR-1) is quarantined") ||
		!strings.Contains(e.stderr, "--force") || !strings.Contains(e.stderr, "--yes") && y.stored(t, dlq.Stream) != 2 {
		t.Errorf("it says %s, and %d letters are left", e.stderr, y.stored(t, dlq.Stream))
	}
	y.want(t, exitPerson, []string{"dlq", "replay", "--all"}, "replayed 1 in the queue again\nquarantined 1 replayed 1 times or more; the letter stays\n")
	y.want(t, 0, []string{"dlq", "replay", key, "--force", "--reason", "looked at it"}, "replayed 1 ")
	dieAgain(3)
	if l, err := y.letters.Current(t.Context(), "*", y.published[0]); err != nil || l.Replays != 2 {
		t.Errorf("%d replays, %v", l.Replays, err)
	}
}

// An interrupt says where it stands, and a second run goes on.
func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	const n = 12
	y.dead(t, n)
	p := y.background(t, "dlq", "replay", "--all", "--yes", "--rate", "0.01", "--reason", "the portal is back")
	natstest.Eventually(t, "the first letter to go", func() bool { return y.stored(t, dlq.Stream) == n-1 })
	e := p.stop(syscall.SIGINT)
	if e.code != exitFailed || squeeze(e.stdout) != "replayed 1 in the queue again\nleft 11 not begun\n" ||
		e.stderr != "guyline: interrupted after 1 of 12 letters: run it again to go on, nothing is sent twice\n" {
		t.Errorf("exit %d\n%s%s", e.code, e.stdout, e.stderr)
	}
	y.want(t, 0, []string{"dlq", "replay", "--all", "--yes", "--json"}, `{"matched":11,"outcomes":{"replayed":11},"quarantined":0,"left":0}`)
	if queued := y.stored(t, stream.Requeued); queued != n {
		t.Errorf("%d copies are queued", queued)
	}
	y.want(t, 0, []string{"audit", "log"}, "replay", "the portal is back") // of the first letter, whichever report died first
}

// The command is killed again and again in the middle of a bulk replay, while reports are worked: in the end each has run exactly
// once after its letter, and has landed.
func TestReplayKilled(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	const n, rounds = 400, 4
	y.dead(t, n)
	y.work(t, lives)
	killed := 0
	for range rounds {
		left := y.stored(t, dlq.Stream)
		if left < 100 {
			break
		}
		p := y.background(t, "dlq", "replay", "--all", "--yes", "--rate", "200") // so slow that the kill comes in time
		until := left - 1 - rand.IntN(left/rounds)
		natstest.Eventually(t, "some letters to go", func() bool { return y.stored(t, dlq.Stream) <= until })
		if e := p.stop(syscall.SIGKILL); e.code == -1 {
			killed++
		}
	}
	t.Logf("killed in the middle %d times", killed)
	if killed == 0 {
		t.Error("no run was killed in the middle")
	}
	y.want(t, 0, []string{"dlq", "replay", "--all", "--yes"})
	natstest.Eventually(t, "all to be worked", func() bool { return y.stored(t, stream.Requeued) == 0 })
	if got, want := y.ran(), map[int]int{2: n}; !maps.Equal(got, want) {
		t.Errorf("runs of the handler, and how many reports had so many: %v, want %v", got, want)
	}
	if tally := invariant.Check(t, y.js, y.published...); tally != (invariant.Tally{Done: n}) {
		t.Errorf("afterwards %+v", tally)
	}
}

// Two commands replay the same filter at once, while reports are worked.
func TestReplayTwice(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	const n = 200
	y.dead(t, n)
	y.work(t, lives)
	a := y.background(t, "dlq", "replay", "--code", "forbidden", "--yes", "--actor", "ada")
	b := y.background(t, "dlq", "replay", "--code", "forbidden", "--yes", "--actor", "bob")
	<-a.exited
	<-b.exited
	for _, p := range []*process{a, b} {
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != exitPerson {
			t.Errorf("exit %d: %s", code, p.stderr.String())
		}
	}
	natstest.Eventually(t, "all to be worked", func() bool { return y.stored(t, stream.Requeued) == 0 })
	if got, want := y.ran(), map[int]int{2: n}; !maps.Equal(got, want) {
		t.Errorf("runs of the handler, and how many reports had so many: %v, want %v", got, want)
	}
	if tally := invariant.Check(t, y.js, y.published...); tally != (invariant.Tally{Done: n}) {
		t.Errorf("afterwards %+v", tally)
	}
}

func TestRepairCommand(t *testing.T) {
	t.Parallel()
	y := newReplayYard(t)
	y.dead(t, 2)
	old, corrected := y.published[0], report.NewKey("TWR-1", "s3://reports/moved.pdf")
	y.want(t, 0, []string{"dlq", "repair", old.Short(), "--uri", "s3://reports/moved.pdf", "--reason", "the firm moved it"},
		"given up "+string(old)+"\nqueued "+string(corrected)+"\n")
	y.want(t, 0, []string{"show", string(old)}, "fate discarded\n", "reason repaired as "+string(corrected)+": the firm moved it\n")
	y.want(t, 0, []string{"show", "TWR-1", "s3://reports/moved.pdf"}, "fate waiting\n")
	y.want(t, exitFailed, []string{"dlq", "repair", old.Short(), "--uri", "s3://reports/moved.pdf", "--reason", "again"})
	y.work(t, func(e report.Event, run int) error {
		if e.SourceURI != "s3://reports/moved.pdf" || run != 1 {
			return errors.New("unexpected")
		}
		return nil
	})
	natstest.Eventually(t, "the corrected report to land", func() bool { return y.stored(t, stream.Requeued) == 0 })
	y.want(t, 0, []string{"show", string(corrected)}, "fate done\n")
	e := y.want(t, exitFailed, []string{"dlq", "repair", y.published[1].Short(), "--uri", "s3://reports/1.pdf", "--reason", "x"})
	if !strings.Contains(e.stderr, "is the URI that it has") {
		t.Errorf("it says %s", e.stderr)
	}
	y.want(t, 0, []string{"dlq", "repair", y.published[1].Short(), "--uri", "s3://reports/moved too.pdf", "--reason", "x", "--json"},
		`"outcome":"repaired","new_key":"`+string(report.NewKey("TWR-1", "s3://reports/moved too.pdf"))+`"`)
}
