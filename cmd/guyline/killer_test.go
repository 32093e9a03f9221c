package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/guyline/guyline/report"
)

// A report that takes the worker down, and the embedded server with it, dies after its attempts, and those beside it do not: whether the
// server remembers its deliveries or has written none of them to the disk.
func TestReportThatTakesTheStoreDown(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]bool{"remembered": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killer(t, forgets)
		})
	}
}

func killer(t *testing.T, forgets bool) {
	s := newShop(t, "GUYLINE_ACK_WAIT=4s", "GUYLINE_WORKERS=8")
	s.write(t, "extract.sh", "#!/bin/sh\nif grep -q kill \"$GUYLINE_FILE\"; then kill -9 $PPID; exec sleep 600; fi\necho '{\"well\": true}'\n")
	s.env = append(s.env, "GUYLINE_EXTRACT_COMMAND="+filepath.Join(s.dir, "extract.sh"))
	s.write(t, "killer.pdf", "kill")
	var list strings.Builder
	list.WriteString("site_id,source_uri\n")
	for i := range 20 {
		if i == 3 {
			list.WriteString("TWR-1,killer.pdf\n")
		}
		name := fmt.Sprintf("file%d.pdf", i)
		s.write(t, name, "well")
		fmt.Fprintf(&list, "TWR-9,%s\n", name)
	}
	s.write(t, "list.csv", list.String())
	s.want(t, 0, []string{"publish", "list.csv"}, "accepted 21\n")
	state := filepath.Join(s.dir, "guyline-data/jetstream/$G/streams/REPORTS/obs/workers/o.dat")
	before, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	for ; ; kills++ {
		e := s.do(t, "", "run", "--drain")
		if e.code == exitPerson {
			break
		}
		if e.code != -1 || kills == 8 {
			t.Fatalf("run after %d kills: exit %d\n%s", kills, e.code, e.stderr)
		}
		if forgets {
			if err := os.WriteFile(state, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kills != 4 {
		t.Errorf("it took its worker down %d times, want 4", kills)
	}
	s.want(t, 0, []string{"status"}, "waiting 0\n", "done 20\n", "dead 1 ")
	s.want(t, 0, []string{"dlq", "show", string(report.NewKey("TWR-1", "killer.pdf"))}, "abandoned")
}
