package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every wrong input gets one line that helps, and the right exit code.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(t, "bad.csv", "site_id,source_uri\nTWR-1,a.pdf\nTWR:2,b.pdf\nTWR-3\n")
	s.write(t, "semicolon.csv", "site_id;source_uri\nTWR-1;a.pdf\n")
	s.write(t, "empty.csv", "")
	s.write(t, "sites.csv", "name\nTWR-1\n")
	s.write(t, "upper.jsonl", "{\"SITE_ID\":\"Y\"}\n")
	s.write(t, "twice.jsonl", "{\"site_id\":\"Z\",\"site_id\":\"Q\"}\n")
	s.write(t, "quote.csv", "site_id,source_uri\nTWR-1,\"a.pdf\nTWR-2,b.pdf\nTWR-3,c.pdf\"\nTWR-4,d.pdf\n")
	s.write(t, "afile", "")
	s.write(t, "more.csv", "site_id,source_uri\nTWR-9,more.pdf\n")
	s.want(t, 0, []string{"publish", "testdata/overnight.csv"}, "accepted 11\n")

	for _, tt := range []struct {
		args string
		env  string
		code int
		line string // in the last line of stderr
	}{
		{"bogus", "", 2, `unknown command "bogus"`},
		{"status --bogus", "", 2, "unknown flag: --bogus (see `guyline status --help`)"},
		{"status extra", "", 2, "the form is `guyline status`; arguments given: 1 (see `guyline status --help`)"},
		{"run testdata/overnight.csv", "", 2, "the form is `guyline run`; arguments given: 1"},
		{"show", "", 2, "the form is `guyline show {SITE URI | KEY}`; arguments given: 0"},
		{"dlq discard --reason x", "", 2, "the form is `guyline dlq discard KEY... --reason R`; arguments given: 0"},
		{"audit log a b c", "", 2, "the form is `guyline audit log [SITE URI | KEY]`; arguments given: 3"},
		{"dlq bogus", "", 2, "unknown command \"bogus\" for \"guyline dlq\""},
		{"help bogus", "", 2, "unknown command \"bogus\""},
		{"help dlq bogus", "", 2, "unknown command \"dlq bogus\""},
		{"status --json=maybe", "", 2, `--json is "maybe", it must be true or false`},
		{"bench --n x", "", 2, "--n is \"x\", it must be a whole number (see `guyline bench --help`)"},
		{"bench latency --delays 4q", "", 2, `--delays is "4q", it must be durations, like 50ms,5s`},
		{"chaos --seed -4", "", 2, `--seed is "-4", it must be a whole number, not below 0`},
		{"chaos --for 3x", "", 2, `--for is "3x", it must be a duration, like 90s or 5m`},
		{"show", "", 2, "see `guyline show --help`"},
		{"show TWR-1", "", 2, "give SITE and URI, or the whole key"},
		{"show TWR:1 a.pdf", "", 2, "contains ':'"},
		{"dlq show xyz", "", 2, "not the beginning of a key"},
		{"dlq show 0123abcd", "", 1, "no such dead letter: `guyline dlq ls` lists them"},
		{"dlq replay 0123abcd", "", 1, "no such dead letter"},
		{"dlq replay", "", 2, "either KEYs, or filters, or --all"},
		{"dlq replay --all --class poison", "", 2, "either KEYs, or filters, or --all"},
		{"dlq replay --all --rate fast", "", 2, "allowed: a number of reports per second above 0, like 200 or 0.5/s"},
		{"dlq replay --all --rate 0", "", 2, "--rate"},
		{"dlq replay --all --rate -1/s", "", 2, "--rate"},
		{"dlq replay --all --rate NaN", "", 2, "--rate"},
		{"dlq replay --all --rate Inf", "", 2, "--rate"},
		{"dlq replay --all --limit -1", "", 2, "--limit is -1"},
		{"dlq replay --all --yes --limit 0", "", 2, "--limit is 0, allowed: 1 or more"},
		{"dlq replay --all --yes --canary 0", "", 2, "--canary is 0, allowed: 1 or more"},
		{"dlq replay --all --canary -1", "", 2, "--canary is -1"},
		{"dlq replay --all --force", "", 2, "by KEY only"},
		{"dlq repair 0123abcd --reason x", "", 2, "needs a --uri"},
		{"dlq repair 0123abcd --uri a.pdf", "", 2, "needs a --reason"},
		{"dlq repair xyz --uri a.pdf --reason x", "", 2, "not the beginning of a key"},
		{"dlq repair 0123abcd --uri a.pdf --reason x", "", 1, "no such dead letter"},
		{"dlq repair --uri a.pdf --reason x", "", 2, "see `guyline dlq repair --help`"},
		{"dlq ls --class fatal", "", 2, "allowed: poison, exhausted, abandoned"},
		{"dlq ls --since yesterday", "", 2, "--since: \"yesterday\" is neither"},
		{"results --since yesterday", "", 2, "--since: \"yesterday\" is neither"},
		{"results --until soon", "", 2, "--until: \"soon\" is neither"},
		{"results --since 1h --until 2h", "", 2, "--since 1h is not before --until 2h"},
		{"results --site TWR:1", "", 2, "--site: "},
		{"dlq ls --since 2026-01-02 --until 2026-01-01", "", 2, "is not before --until"},
		{"dlq ls --due-within soon", "", 2, "a duration like 48h"},
		{"dlq ls --match [", "", 2, "--match"},
		{"dlq ls --upstream sftp://me:secret@portal/a/b.pdf", "", 2, "scheme://host"},
		{"dlq ls --limit 0", "", 2, "1 or more"},
		{"dlq ls --limit -1", "", 2, "1 or more"},
		{"dlq export --replays x", "", 2, "1 or more"},
		{"why TWR-1", "", 2, "give SITE and URI, or the whole key"},
		{"why 0123abcd", "", 1, "no such dead letter"},
		{"show 0123abcd", "", 1, "(of other reports give SITE and URI, or the whole key)"},
		{"why TWR:1 a.pdf", "", 2, "contains ':'"},
		{"dlq discard 0123", "", 2, "needs a --reason"},
		{"publish", "", 2, "either a FILE"},
		{"publish --site TWR-1", "", 2, "either a FILE"},
		{"publish --site TWR-1 --uri a.pdf --due soon", "", 2, `due "soon"`},
		{"publish nowhere.csv", "", 2, "nowhere.csv: no such file"},
		{"publish bad.csv", "", 2, "2 of 3 rows in bad.csv are wrong and nothing was published"},
		{"publish semicolon.csv", "", 2, "columns are separated by commas"},
		{"publish empty.csv", "", 2, "the list is empty"},
		{"publish testdata/reports/twr8842_q2.pdf", "", 2, "not a CSV header"},
		{"publish quote.csv", "", 2, "lines 2 to 4 are one record: is a quote missing?"},
		{"publish --skip-bad quote.csv", "", 2, "lines 2 to 4 are one record: is a quote missing?"},
		{"publish /dev/zero", "", 2, "no end of the row"},
		{"run --drain --publish bad.csv", "", 2, "nothing was published"},
		{"sites import nowhere.csv", "", 2, "no such file"},
		{"sites import sites.csv", "", 2, "not a CSV header with a column site_id"},
		{"sites import upper.jsonl", "", 2, "site_id is missing; nothing was imported"},
		{"sites import twice.jsonl", "", 2, "is repeated; nothing was imported"},
		{"sites import /dev/zero", "", 2, "no end of the row"},
		{"audit log 0123", "", 2, "give SITE and URI, or the whole key"},
		{"status", "GUYLINE_NATS_URL=nats://secret@127.0.0.1:1", 1, "connect to nats://***@127.0.0.1:1 (GUYLINE_NATS_URL)"},
		{"bench --server given", "GUYLINE_NATS_URL=nats://secret@127.0.0.1:1", 1, "connect to nats://***@127.0.0.1:1 (GUYLINE_NATS_URL)"},
		{"bench latency --server given", "GUYLINE_NATS_URL=nats://secret@127.0.0.1:1", 1, "connect to nats://***@127.0.0.1:1 (GUYLINE_NATS_URL)"},
		{"bench publish --server given", "GUYLINE_NATS_URL=nats://secret@127.0.0.1:1", 1, "connect to nats://***@127.0.0.1:1 (GUYLINE_NATS_URL)"},
		{"status", "GUYLINE_WORKERS=many", 2, `GUYLINE_WORKERS is "many", allowed: 1 to 1024`},
		{"status", "GUYLINE_WORKER=8", 2, "GUYLINE_WORKER is not a variable of ours"},
		{"status", "GUYLINE_MAX_DELAY=1ms", 2, `GUYLINE_MAX_DELAY is "1ms", allowed: at least BASE_DELAY`},
		{"status", "GUYLINE_DUE_WARN=-1h", 2, `GUYLINE_DUE_WARN is "-1h", allowed: 0 to 8760h`},
		{"status", "GUYLINE_REPLICAS=3", 2, "GUYLINE_REPLICAS"},
		{"status", "GUYLINE_DATA_DIR=./nowhere", 2, "no store at ./nowhere"},
		{"results", "GUYLINE_DATA_DIR=./nowhere", 2, "no store at ./nowhere"},
		{"run", "GUYLINE_DATA_DIR=./afile", 2, "GUYLINE_DATA_DIR: store ./afile: create it: not a directory: it must be a directory that can be made"},
		{"run", "GUYLINE_DATA_DIR=/dev/null/x", 2, "GUYLINE_DATA_DIR: store /dev/null/x: create it: not a directory"},
		{"status", "GUYLINE_DATA_DIR=./afile", 2, "GUYLINE_DATA_DIR: store ./afile: look for it: not a directory"},
		{"run", "GUYLINE_FILE_ROOT=./nowhere", 2, `GUYLINE_FILE_ROOT is "./nowhere", allowed: a directory: open `},
		{"run --drain --publish more.csv", "GUYLINE_FILE_ROOT=./afile", 2, `GUYLINE_FILE_ROOT is "./afile", allowed: a directory: open `},
		{"run --drain --publish more.csv", "GUYLINE_TEMP_DIR=./nowhere", 2, `GUYLINE_TEMP_DIR is "./nowhere", allowed: a directory: open `},
		{"run --drain --publish more.csv", "GUYLINE_TEMP_DIR=/proc", 2, `GUYLINE_TEMP_DIR is "/proc", allowed: a directory: open `},
		{"run --drain --publish more.csv", "GUYLINE_CACHE_DIR=./afile", 2, `GUYLINE_CACHE_DIR is "./afile", allowed: a directory: `},
		{"run --drain --publish more.csv", "GUYLINE_ALLOW_HOSTS=a,https://u:se,secret@host", 2, `GUYLINE_ALLOW_HOSTS is "a,https://***,***@host", allowed: host, host:port, *.suffix or *, comma-separated: number 2 of 3`},
		{"run --drain --publish more.csv", "GUYLINE_ALLOW_HOSTS=,", 2, `GUYLINE_ALLOW_HOSTS is ",", allowed: host`},
		{"run --drain --publish more.csv", "GUYLINE_S3_ENDPOINT=https://u:secret@minio", 2, `GUYLINE_S3_ENDPOINT is "https://***@minio", allowed: a URL: `},
		{"run --drain --publish more.csv", "GUYLINE_SFTP_PASSWORD=secret", 2, `GUYLINE_SFTP_USER is "", allowed: a name: `},
		{"run --drain --publish more.csv", "GUYLINE_SFTP_KEY_FILE=./nowhere", 2, `GUYLINE_SFTP_KEY_FILE is "./nowhere", allowed: a file: `},
		{"run --drain --publish more.csv", "GUYLINE_SFTP_KNOWN_HOSTS=./nowhere", 2, `GUYLINE_SFTP_KNOWN_HOSTS is "./nowhere", allowed: a file: `},
		{"run --drain --publish more.csv", "GUYLINE_EXTRACT_COMMAND=./nowhere", 2, `GUYLINE_EXTRACT_COMMAND is "./nowhere", allowed: a program and its arguments: find the extractor`},
		{"inspect testdata/reports/twr8842_q2.pdf", "GUYLINE_CACHE_DIR=./afile", 2, `GUYLINE_CACHE_DIR is "./afile"`},
	} {
		t.Run(tt.args+" "+tt.env, func(t *testing.T) {
			s := &shop{dir: s.dir}
			if tt.env != "" {
				s.env = []string{tt.env}
			}
			e := s.do(t, "", strings.Fields(tt.args)...)
			lines := strings.Split(strings.TrimSuffix(e.stderr, "\n"), "\n")
			last := lines[len(lines)-1]
			if e.code != tt.code || !strings.Contains(last, tt.line) || !strings.HasPrefix(last, "guyline: ") {
				t.Errorf("exit %d, want %d with %q; stderr:\n%s", e.code, tt.code, tt.line, e.stderr)
			}
			if strings.Contains(e.stderr, "secret") {
				t.Errorf("a secret is shown:\n%s", e.stderr)
			}
		})
	}
	// Nothing of all that was half done.
	s.want(t, 0, []string{"status"}, "waiting 11\n", "dead 0\n")
	if e := s.want(t, 0, []string{"sites", "ls"}); e.stdout != "" || !strings.Contains(e.stderr, "every site is known") {
		t.Errorf("sites ls: %s%s", e.stdout, e.stderr)
	}
}

// A worker that cannot work makes no store, which the next command would take for one.
func TestWrongConfigurationMakesNoStore(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, wrong := range []string{"GUYLINE_FILE_ROOT=./nowhere", "GUYLINE_ALLOW_HOSTS=,", "GUYLINE_WORKERS=many", "GUYLINE_EXTRACT_COMMAND=./nowhere"} {
		s.env = []string{wrong}
		s.want(t, 2, []string{"run", "--drain", "--publish", "testdata/overnight.csv"})
	}
	s.env = nil
	if e := s.want(t, 2, []string{"status"}); !strings.Contains(e.stderr, "no store at ") {
		t.Errorf("status: %s", e.stderr)
	}
}

func TestPublishSkipsBadRowsIfAsked(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = []string{"TMPDIR=" + s.dir}
	list := "site_id,source_uri\nTWR-1,a.pdf\nTWR:2,b.pdf\nTWR-3,c.pdf\n"
	e := s.do(t, list, "publish", "-", "--skip-bad")
	if e.code != 0 || !strings.Contains(squeeze(e.stdout), "accepted 2\n") || !strings.Contains(squeeze(e.stdout), "bad rows skipped 1\n") ||
		!strings.Contains(e.stderr, `standard input: line 3: invalid event: site_id "TWR:2" contains ':'`) {
		t.Errorf("exit %d\n%s%s", e.code, e.stdout, e.stderr)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "guyline-list-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("spooled lists are left behind: %v, %v", left, err)
	}
}

// A list may come through a pipe that has a name, like `guyline publish <(export)`, though it is read twice.
func TestListThroughPipe(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env = []string{"TMPDIR=" + s.dir}
	for _, args := range []string{"publish /dev/fd/3", "reconcile /dev/fd/3", "run --drain --publish /dev/fd/3"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := s.command(t.Context(), quick, strings.Fields(args)...)
		cmd.ExtraFiles = []*os.File{r}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = w.WriteString("site_id,source_uri\nTWR-8842,testdata/reports/twr8842_q2.pdf\nTWR-1,testdata/reports/twr1180_q2.pdf\n")
		if err := errors.Join(err, w.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := squeeze(out.String()); !strings.Contains(got, "accepted 2\n") && !strings.Contains(got, "waiting 2 ") && !strings.Contains(got, "done 2\n") {
			t.Errorf("%s: exit %d\n%s", args, cmd.ProcessState.ExitCode(), &out)
		}
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "guyline-list-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("spooled lists are left behind: %v, %v", left, err)
	}
}
