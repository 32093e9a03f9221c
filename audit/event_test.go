package audit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// The names of events are a storage format: the server and the readers of the trail fold by them.
func TestID(t *testing.T) {
	t.Parallel()
	const key = "068af75aea2cbf541cbd61bafac909cbdd1a6ba75eed155147faeaf0533f5899"
	e := audit.Event{Key: key, Stream: "REPORTS", Sequence: 7, Delivery: 3, Letter: 12, NewKey: "b9e1", Revision: 9, Actor: "ada@office"}
	e.Published = time.Date(2026, 11, 29, 2, 0, 0, 123_000_000, time.UTC)
	for kind, want := range map[audit.Kind]string{
		audit.Reprocess:     "reprocess:" + key + ":9:ada@office",
		audit.AttemptFailed: "attempt:" + key + ":REPORTS:7:3",
		audit.Death:         "death:" + key + ":REPORTS:7:2026-11-29T02:00:00.123Z",
		audit.Replay:        "replay:" + key + ":12",
		audit.Discard:       "discard:" + key + ":12",
		audit.Recovered:     "recovered:" + key + ":12",
		audit.Repair:        "repair:" + key + ":12:b9e1",
	} {
		e.Kind = kind
		if got := e.ID(); got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
	e.Kind, e.Corrects = audit.Death, true
	if got, want := e.ID(), "death:"+key+":REPORTS:7:2026-11-29T02:00:00.123Z:corrected"; got != want {
		t.Errorf("a correction: got %s, want %s", got, want)
	}
	e.Replays = 2
	if got, want := e.ID(), "death:"+key+":REPORTS:7:2026-11-29T02:00:00.123Z:replay-2:corrected"; got != want {
		t.Errorf("of a replay: got %s, want %s", got, want)
	}
}

func TestEventJSON(t *testing.T) {
	t.Parallel()
	e := audit.Event{
		Time: time.Date(2026, 11, 29, 2, 0, 1, 500_000_000, time.UTC), Kind: audit.Death, Key: "068a", SiteID: "TWR-9017", Worker: "host/4711",
		Attempt: 1, Class: report.ClassPoison, Code: report.CodeMalformedPDF, Reason: "unparseable", Hash: "b9e1", Stream: "REPORTS", Sequence: 2,
	}
	const want = `{"time":"2026-11-29T02:00:01.5Z","kind":"death","key":"068a","site_id":"TWR-9017","worker":"host/4711","attempt":1,` +
		`"class":"poison","code":"malformed-pdf","reason":"unparseable","hash":"b9e1","stream":"REPORTS","sequence":2}`
	got, err := json.Marshal(e)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	var back audit.Event
	if err := json.Unmarshal(got, &back); err != nil || !cmp.Equal(back, e) {
		t.Errorf("%v %s", err, cmp.Diff(e, back))
	}
}
