package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/guyline/guyline/fate"
	"github.com/guyline/guyline/report"
)

// A password that is longer than what is shown of a URI is not shown for that.
func TestUnknownHidesLongPasswords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out}
	row := morningRow{Row: report.Row{Line: 2, Event: report.Event{SiteID: "TWR-1", SourceURI: "ftp://u:" + strings.Repeat("p", 300) + "@host/q2.pdf"}}}
	a.printUnknown(&standings{of: map[fate.Fate]int{fate.Unknown: 1}, unknown: []morningRow{row}})
	if want := "\nUNKNOWN\nline 2: TWR-1 ftp://host/q2.pdf\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
