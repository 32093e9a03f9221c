package main

import (
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

// A corrected file under the same URI is worked when somebody says so, and not before.
func TestReprocess(t *testing.T) {
	t.Parallel()
	const site, uri = "TWR-8842", "testdata/reports/corrected.pdf"
	key := string(report.NewKey(site, uri))
	s := newShop(t, "GUYLINE_EXTRACT_COMMAND=./extract.sh")
	s.write(t, "extract.sh", "#!/bin/sh\necho \"{\\\"says\\\": \\\"$(cat \"$GUYLINE_FILE\")\\\"}\"\n")
	s.write(t, uri, "first")
	publish := []string{"publish", "--site", site, "--uri", uri}
	s.want(t, 0, publish, "accepted 1\n")
	s.want(t, 0, []string{"run", "--drain"}, "done 1\n")

	s.write(t, uri, "second")
	s.want(t, 0, publish, "already done 1\n")
	s.want(t, 0, []string{"run", "--drain"}, "done 0\n")
	for _, args := range [][]string{
		{"reprocess", site, uri},
		{"reprocess", site, uri, "--reason", " \n"},
		{"reprocess", "--reason", "why"},
		{"reprocess", key[:12], "--reason", "why"},
		{"reprocess", site, uri, "--reason", "why", "--actor", ""},
	} {
		s.want(t, exitUsage, args)
	}
	e := s.want(t, exitFailed, []string{"reprocess", site, "other.pdf", "--reason", "why"})
	if !strings.Contains(e.stderr, "is not settled") {
		t.Errorf("of a report that is not settled: %s", e.stderr)
	}

	s.want(t, 0, []string{"reprocess", site, uri, "--reason", "the firm sent a corrected file", "--actor", "ada"}, "reopened "+uri+" of "+site+"\n")
	s.want(t, 0, []string{"reprocess", key, "--reason", "once more"}, "queued "+uri+" of "+site+"; ada had reopened it before\n") // it goes on where it was
	s.want(t, 0, []string{"show", key}, "waiting")
	s.want(t, 0, []string{"run", "--drain"}, "done 1\n")
	s.want(t, 0, []string{"results"}, `{"says":"second"}`)
	e = s.want(t, 0, []string{"audit", "log", key}, "ada the firm sent a corrected file\n")
	if strings.Count(e.stdout, "reprocess ") != 1 || strings.Contains(e.stdout, "once more") {
		t.Errorf("the trail:\n%s", e.stdout)
	}
	s.want(t, 0, []string{"reprocess", key, "--reason", "again", "--json"}, `"outcome":"reopened"`)
}
