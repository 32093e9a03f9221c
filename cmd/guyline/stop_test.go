package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/internal/natstest"
)

// A signal ends a command that waits for standard input.
func TestStopWhileReading(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"publish -", "run --drain --publish -"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(args+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				s.env = []string{"TMPDIR=" + s.dir}
				p := s.background(t, strings.Fields(args)...)
				if _, err := io.WriteString(p.stdin, "site_id,source_uri\n"); err != nil {
					t.Fatal(err)
				}
				spool := filepath.Join(s.dir, "guyline-list-*")
				natstest.Eventually(t, "the command to read", func() bool {
					files, _ := filepath.Glob(spool)
					if len(files) == 0 {
						return false
					}
					info, err := os.Stat(files[0])
					return err == nil && info.Size() > 0
				})
				e := p.stop(sig)
				if e.code != exitFailed || !strings.HasPrefix(e.stderr, "guyline: interrupted") || strings.Count(e.stderr, "\n") != 1 {
					t.Errorf("exit %d\n%s", e.code, e.stderr)
				}
				if left, _ := filepath.Glob(spool); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for answer, agreed := range map[string]bool{"y\n": true, " Yes \n": true, "n\n": false, "\n": false, "": false, "y": false} {
		var stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(answer), stderr: &stderr}
		if err := a.ask(t.Context(), "sure"); (err == nil) != agreed || stderr.String() != "sure? [y/N] " {
			t.Errorf("%q: %v, after the question %q", answer, err, stderr.String())
		}
	}
	open, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &app{stdin: open, stderr: io.Discard}
	if err := a.ask(ctx, "sure"); err == nil || err.Error() != "interrupted: nothing done" {
		t.Errorf("interrupted: %v", err)
	}
}

// The first signal waits for running attempts, the second cuts them; the report is handed back.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(t, "slow.sh", "#!/bin/sh\nexec sleep 600\n")
	s.env = []string{"GUYLINE_STOP_GRACE=1h", "GUYLINE_EXTRACT_COMMAND=" + filepath.Join(s.dir, "slow.sh")}
	w := s.worker(t)
	s.want(t, 0, []string{"publish", "--site", "TWR-8842", "--uri", "testdata/reports/twr8842_q2.pdf"}, "accepted 1\n")
	natstest.Eventually(t, "the report to be in work", func() bool { return s.counts(t).InWork == 1 })
	w.signal(syscall.SIGTERM)
	natstest.Eventually(t, "the first signal to be obeyed", func() bool { return strings.Contains(w.stderr.String(), "stopping: running attempts may finish") })
	if e := w.stop(syscall.SIGINT); e.code != 0 {
		t.Errorf("exit %d\n%s", e.code, e.stderr)
	}
	if c := s.counts(t); c.Waiting+c.InWork != 1 || c.DeadTotal() != 0 {
		t.Errorf("afterwards %+v", c)
	}
}

// A worker whose log has no reader any more, as when Ctrl-C ends `guyline run 2>&1 | tee log`, is stopped, not killed.
func TestStopWithoutReader(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(t, "slow.sh", "#!/bin/sh\nexec sleep 600\n")
	s.env = []string{"GUYLINE_STOP_GRACE=1h", "GUYLINE_EXTRACT_COMMAND=" + filepath.Join(s.dir, "slow.sh")}
	s.want(t, 0, []string{"publish", "--site", "TWR-8842", "--uri", "testdata/reports/twr8842_q2.pdf"}, "accepted 1\n")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.command(context.Background(), os.Args[0], "run")
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = w.Close()
	natstest.Eventually(t, "the report to be in work", func() bool { return s.do(t, "", "status").code == 0 && s.counts(t).InWork == 1 })
	_ = r.Close()
	_ = cmd.Process.Signal(syscall.SIGINT)
	exited := make(chan error)
	go func() { exited <- cmd.Wait() }()
	for ended := false; !ended; {
		select {
		case err := <-exited:
			if ended = true; err != nil {
				t.Errorf("the worker ended with %v, want exit 0", err)
			}
		case <-time.After(200 * time.Millisecond): // the signals are obeyed one by one
			_ = cmd.Process.Signal(syscall.SIGINT)
		}
	}
	if c := s.counts(t); c.Waiting != 1 || c.InWork != 0 || c.DeadTotal() != 0 {
		t.Errorf("afterwards %+v", c)
	}
}

// A watch lets others use the store between its looks.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, 0, []string{"setup"})
	p := s.background(t, "status", "--watch", "--json")
	natstest.Eventually(t, "the first look", func() bool { return strings.Contains(p.stdout.String(), `"waiting":0`) })
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"}, "accepted 11\n")
	natstest.Eventually(t, "a later look", func() bool { return strings.Contains(p.stdout.String(), `"waiting":11`) })
	if e := p.stop(syscall.SIGINT); e.code != 0 || e.stderr != "" {
		t.Errorf("exit %d\n%s", e.code, e.stderr)
	}
}

// A watch outlives a server that is away for a while, but does not wait for one that was never there.
func TestWatchServerAway(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	s := newShop(t, "GUYLINE_NATS_URL="+server.URL())
	s.want(t, 0, []string{"setup"})
	p := s.background(t, "status", "--watch", "--json")
	looks := func() int { return strings.Count(p.stdout.String(), `"waiting":0`) }
	natstest.Eventually(t, "the first look", func() bool { return looks() > 0 })
	server.Stop(t)
	natstest.Eventually(t, "a look at nothing", func() bool { return strings.Contains(p.stderr.String(), `"msg":"no look this time"`) })
	before := looks()
	server.Restart(t)
	natstest.Eventually(t, "a look after that", func() bool { return looks() > before })
	if e := p.stop(syscall.SIGINT); e.code != 0 {
		t.Errorf("exit %d\n%s", e.code, e.stderr)
	}
	server.Stop(t)
	s.want(t, exitFailed, []string{"status", "--watch"})
}

func (s *shop) counts(t *testing.T) (c fate.Counts) {
	t.Helper()
	e := s.want(t, 0, []string{"status", "--json"})
	if err := json.Unmarshal([]byte(e.stdout), &c); err != nil {
		t.Errorf("status says %q: %v", e.stdout, err)
	}
	return c
}
