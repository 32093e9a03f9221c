package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/guyline/guyline/chaos"
)

// The plan follows from the seed, in words and in JSON.
func TestChaosPlan(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	args := []string{"chaos", "--plan", "--seed", "7", "--servers", "3", "--faults", "40"}
	e := s.want(t, 0, args, "kill-server leader of REPORTS", "step-down", "full-stream REPORTS_DLQ")
	if again := s.want(t, 0, args); again.stdout != e.stdout || strings.Count(e.stdout, "\n") != 40 || e.stderr != "" {
		t.Errorf("the plan of one seed:\n%sand again:\n%s%s", e.stdout, again.stdout, e.stderr)
	}
	for line := range strings.Lines(s.want(t, 0, append(args, "--json")).stdout) {
		var f chaos.Fault
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Kind == "" {
			t.Errorf("%v in %s", err, line)
		}
	}
	if help := s.want(t, 0, []string{"--help"}); strings.Contains(help.stdout, "chaos") {
		t.Errorf("the short help shows it:\n%s", help.stdout)
	}
}

func TestChaosWrongInput(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, tt := range []struct {
		args string
		code int
		line string
	}{
		{"chaos --servers 2", exitUsage, "the number of servers is 2, allowed is 1 or 3"},
		{"chaos --for soon", exitUsage, "see `guyline chaos --help`"},
		{"chaos --url tls://a:4222", exitUsage, "TLS does not go through the proxies"},
		{"chaos --reports 100 --dir .", exitFailed, ". exists: give a directory that is to be made"},
		{"chaos --reports 100 --url nats://127.0.0.1:1", exitFailed, "no servers available"},
		{"chaos-worker", exitFailed, "for the use of `guyline chaos` alone"},
		{"chaos-server", exitFailed, "for the use of `guyline chaos` alone"},
		{"chaos-clean", exitFailed, "for the use of `guyline chaos` alone"},
	} {
		e := s.want(t, tt.code, strings.Fields(tt.args))
		lines := strings.Split(strings.TrimSpace(e.stderr), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "guyline: ") || !strings.Contains(last, tt.line) {
			t.Errorf("guyline %s says %q, want %q", tt.args, last, tt.line)
		}
	}
}
