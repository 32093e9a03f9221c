package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/report"
)

// filterOf is the filter that these arguments, separated by |, make.
func filterOf(t *testing.T, args string) (flags filterFlags, f dlq.Filter, err error) {
	t.Helper()
	cmd := &cobra.Command{}
	flags.register(cmd)
	if args != "" {
		if err := cmd.ParseFlags(strings.Split(args, "|")); err != nil {
			t.Fatal(err)
		}
	}
	f, err = flags.filter()
	return flags, f, err
}

func TestFilterFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, wrong string }{
		{"--site|TWR:1", "--site: "},
		{"--site|" + strings.Repeat("x", 129), "--site: "},
		{"--class|fatal", `--class is "fatal", allowed: poison, exhausted, abandoned`},
		{"--class|Poison", "--class"},
		{"--code|Not-Found", "--code"},
		{"--code|not found", "--code"},
		{"--upstream|portal.example.com", "--upstream"},
		{"--upstream|sftp://portal/a/b.pdf", "--upstream"},
		{"--upstream|sftp://", "--upstream"},
		{"--upstream|://x", "--upstream"},
		{"--since|yesterday", "--since: "},
		{"--until|2026-13-01", "--until: "},
		{"--since|1h|--until|2h", "--since 1h is not before --until 2h"},
		{"--since|2026-11-29|--until|2026-11-29", "is not before"},
		{"--due-within|soon", "--due-within"},
		{"--due-within|2d", "--due-within"},
		{"--due-within|-1s", "--due-within"},
		{"--replays|0", "--replays"},
		{"--replays|-1", "--replays"},
		{"--replays|twice", "--replays"},
		{"--replays|99999999999999999999", "--replays"},
		{"--match|[", "--match: "},
		{"--match|(?<x", "--match: "},
	} {
		_, _, err := filterOf(t, tt.args)
		if _, usage := errors.AsType[usageError](err); !usage || !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: got %v, want a usage error with %q", tt.args, err, tt.wrong)
		}
	}
	day := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		args string
		want dlq.Filter
	}{
		{"", dlq.Filter{}},
		{"--site|NY 12.4", dlq.Filter{Site: "NY 12.4"}},
		{"--class|abandoned", dlq.Filter{Class: report.ClassAbandoned}},
		{"--code|a-code-of-mine-2", dlq.Filter{Code: "a-code-of-mine-2"}},
		{"--upstream|file", dlq.Filter{Upstream: "file"}},
		{"--upstream|https://portal:8443/", dlq.Filter{Upstream: "https://portal:8443"}},
		{"--since|2026-11-29|--until|2026-11-29T02:00:00Z", dlq.Filter{Since: day, Until: day.Add(2 * time.Hour)}},
		{"--until|2026-11-29", dlq.Filter{Until: day}},
		{"--replays|1", dlq.Filter{Replays: 1}},
		{"--quarantined", dlq.Filter{Quarantined: true}},
		{"--match|^HTTP 5|--code|server-error", dlq.Filter{Match: regexp.MustCompile("^HTTP 5"), Code: report.CodeServerError}},
	} {
		flags, got, err := filterOf(t, tt.args)
		same := cmp.Comparer(func(a, b *regexp.Regexp) bool {
			return (a == nil) == (b == nil) && (a == nil || a.String() == b.String())
		})
		if diff := cmp.Diff(tt.want, got, same); diff != "" || err != nil || flags.empty() != (tt.args == "") {
			t.Errorf("%s: empty %v, %v (-want +got):\n%s", tt.args, flags.empty(), err, diff)
		}
	}
	for args, want := range map[string]time.Duration{"--due-within|0s": 0, "--due-within|48h": 48 * time.Hour} {
		before := time.Now()
		_, got, err := filterOf(t, args)
		if early, late := before.Add(want), time.Now().Add(want); err != nil || got.DueBefore.Before(early) || got.DueBefore.After(late) {
			t.Errorf("%s: due before %v, %v; want between %v and %v", args, got.DueBefore, err, early, late)
		}
	}
}
