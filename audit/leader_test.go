package audit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

func TestLastChange(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	key := report.NewKey("NY", "a.pdf")
	expect := func(want audit.Event, wantErr error) {
		t.Helper()
		for _, site := range []report.Token{"NY", "*"} {
			if got, err := trail.LastChange(t.Context(), site, key); !errors.Is(err, wantErr) || !cmp.Equal(got, want) {
				t.Errorf("of site %s: %v, want %v; %s", site, err, wantErr, cmp.Diff(want, got))
			}
		}
	}
	expect(audit.Event{}, audit.ErrNotFound)
	appended(t, trail, event(audit.Death, "NY 12.4", 1), event(audit.AttemptFailed, "NY", 2), event(audit.AttemptFailed, "NY", 3))
	expect(audit.Event{}, audit.ErrNotFound)
	for n, kind := range []audit.Kind{audit.Death, audit.Replay, audit.Death, audit.Discard, audit.Recovered} {
		e := event(kind, "NY", uint64(10*n+10))
		appended(t, trail, e)
		expect(e, nil)
		late := event(audit.AttemptFailed, "NY", uint64(10*n+11))
		appended(t, trail, late)
		expect(e, nil)
	}
	js.Conn().Close()
	if got, err := trail.LastChange(t.Context(), "NY", key); err == nil || errors.Is(err, audit.ErrNotFound) {
		t.Errorf("there is no server: got %+v, %v", got, err)
	}
}

// A discard stands until the report dies again, whatever else is recorded after it.
func TestDiscarded(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	key := report.NewKey("NY", "a.pdf")
	var discard audit.Event // the one that stands
	expect := func(after audit.Event) {
		t.Helper()
		for _, site := range []report.Token{"NY", "*"} {
			got, err := trail.Discarded(t.Context(), site, key)
			if discard.Kind == "" && !errors.Is(err, audit.ErrNotFound) || discard.Kind != "" && err != nil || !cmp.Equal(got, discard) {
				t.Errorf("after %s %d, of site %s: %v %s", after.Kind, after.Letter, site, err, cmp.Diff(discard, got))
			}
		}
	}
	expect(audit.Event{})
	appended(t, trail, event(audit.Discard, "NY 12.4", 1))
	for n, kind := range []audit.Kind{
		audit.AttemptFailed, audit.Replay, audit.Death, audit.Discard, audit.Replay, audit.AttemptFailed, audit.Recovered, audit.Death, audit.Discard, audit.Discard,
	} {
		e := event(kind, "NY", uint64(n+2))
		appended(t, trail, e)
		switch kind {
		case audit.Discard:
			discard = e
		case audit.Death:
			discard = audit.Event{}
		}
		expect(e)
	}
	js.Conn().Close()
	if got, err := trail.Discarded(t.Context(), "NY", key); err == nil || errors.Is(err, audit.ErrNotFound) {
		t.Errorf("there is no server: got %+v, %v", got, err)
	}
}

// What belongs to which publication is told by the server's clock. That of the worker may be behind it by any time.
func TestFirstFailure(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	key := report.NewKey("NY", "a.pdf")
	appended(t, trail, event(audit.AttemptFailed, "NY", 99))
	before, err := jsapi.Last(t.Context(), js, audit.Stream, "reports.audit.>")
	if err != nil {
		t.Fatal(err)
	}
	published := before.Time.Add(1)
	first := func(site report.Token) (time.Time, error) {
		return trail.FirstFailure(t.Context(), site, key, published)
	}
	appended(t, trail, event(audit.AttemptFailed, "NY 12.4", 101), event(audit.Death, "NY", 101))
	if got, err := first("NY"); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("only an earlier publication's: got %v, %v; want ErrNotFound", got, err)
	}
	failed := event(audit.AttemptFailed, "NY", 100)
	appended(t, trail, failed, event(audit.AttemptFailed, "NY", 102))
	for _, site := range []report.Token{"NY", "*"} {
		if got, err := first(site); err != nil || !got.Equal(failed.Time) {
			t.Errorf("of site %s: got %v, %v; want %v", site, got, err, failed.Time)
		}
	}
	js.Conn().Close()
	if got, err := first("NY"); err == nil || errors.Is(err, audit.ErrNotFound) {
		t.Errorf("there is no server: got %v, %v", got, err)
	}
}

func TestPass(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	key := report.NewKey("NY", "a.pdf")
	appended(t, trail, event(audit.AttemptFailed, "NY", 1), event(audit.Suspect, "NY", 2))
	before, err := jsapi.Last(t.Context(), js, audit.Stream, "reports.audit.>")
	if err != nil {
		t.Fatal(err)
	}
	alone := event(audit.Suspect, "NY", 5)
	alone.Worker = "host/4711"
	for _, tt := range []struct {
		what   string
		append []audit.Event
		want   audit.Pass
	}{
		{"only an earlier publication's", nil, audit.Pass{}},
		{"of a worker whose clock is far behind", []audit.Event{event(audit.AttemptFailed, "NY", 3), event(audit.AttemptFailed, "NY", 4), alone},
			audit.Pass{Failed: 2, Alone: []string{"host/4711"}}},
		{"another site's", []audit.Event{event(audit.AttemptFailed, "NY 12.4", 6)}, audit.Pass{Failed: 2, Alone: []string{"host/4711"}}},
		{"a replay begins another", []audit.Event{event(audit.Replay, "NY", 7), event(audit.AttemptFailed, "NY", 8)}, audit.Pass{Failed: 1}},
	} {
		appended(t, trail, tt.append...)
		if got, err := trail.Pass(t.Context(), "NY", key, before.Time.Add(1)); err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: got %+v, %v; want %+v", tt.what, got, err, tt.want)
		}
	}
}

func TestDied(t *testing.T) {
	t.Parallel()
	trail, js := setUp(t)
	key, published := report.NewKey("NY", "a.pdf"), time.Unix(100, 5)
	death := event(audit.Death, "NY", 7)
	death.Published = published.UTC()
	attempt := event(audit.AttemptFailed, "NY", 8)
	attempt.Published = death.Published
	appended(t, trail, event(audit.Death, "NY", 5), attempt, death, event(audit.Replay, "NY", 9))
	again := event(audit.Death, "NY", 10) // of the copy that replays letter 9
	again.Published = death.Published
	appended(t, trail, again, event(audit.Replay, "NY", 11))
	for _, tt := range []struct {
		what      string
		site      report.Token
		stream    string
		sequence  uint64
		published time.Time
		letter    uint64
		want      bool
	}{
		{"another site", "NY=2012=2E4", "REPORTS", 7, published, 0, false},
		{"another stream", "NY", "REPORTS_REQUEUE", 7, published, 0, false},
		{"another sequence", "NY", "REPORTS", 6, published, 0, false},
		{"another time", "NY", "REPORTS", 7, published.Add(1), 0, false},
		{"a failed attempt", "NY", "REPORTS", 8, published, 0, false},
		{"the message", "NY", "REPORTS", 7, published, 0, true},
		{"the message of a key", "*", "REPORTS", 7, published, 0, true},
		{"one whose event does not say when it was published", "NY", "REPORTS", 5, time.Time{}, 0, true},
		{"a replay that got the place of an earlier death", "NY", "REPORTS", 7, published, 9, false},
		{"a replay that died", "NY", "REPORTS", 10, published, 9, true},
		{"a replay of the next letter that got its place", "NY", "REPORTS", 10, published, 11, false},
		{"a replay that the trail has not recorded", "NY", "REPORTS", 7, published, 12, true},
	} {
		if got, err := trail.Died(t.Context(), tt.site, key, tt.stream, tt.sequence, tt.published, tt.letter); got != tt.want || err != nil {
			t.Errorf("%s: got %v, %v", tt.what, got, err)
		}
	}
	if _, err := js.Publish(t.Context(), "reports.audit.NY."+string(key), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := trail.Died(t.Context(), "NY", key, "REPORTS", 6, published, 0); err == nil {
		t.Error("a garbled event: no error")
	}
	if died, err := trail.Died(t.Context(), "NY", key, "REPORTS", 7, published, 0); !died || err != nil {
		t.Errorf("before the garbled event: got %v, %v", died, err)
	}
}
