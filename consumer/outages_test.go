package consumer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

var (
	refused = &report.Error{Kind: report.KindTransient, Code: report.CodeConnection, Err: errors.New("connection refused")}
	login   = &report.Error{Kind: report.KindHold, Code: report.CodeUnauthorized, Err: errors.New("login failed")}
	corrupt = &report.Error{Kind: report.KindPoison, Code: report.CodeMalformedPDF, Err: errors.New("corrupt")}
	missing = &report.Error{Kind: report.KindTransient, Code: report.CodeNotFound, Err: errors.New("404")}
)

// A few outages in a row take an upstream down, any other answer resets the count, and one upstream does not count for another.
func TestOutagesInARow(t *testing.T) {
	t.Parallel()
	const up = "https://portal"
	for name, tt := range map[string]struct {
		saw  []*report.Error
		down bool
	}{
		"too few":             {[]*report.Error{refused, refused}, false},
		"enough":              {[]*report.Error{refused, refused, refused}, true},
		"an answer resets":    {[]*report.Error{refused, refused, nil, refused, refused}, false},
		"a bad file is one":   {[]*report.Error{refused, refused, corrupt, refused, refused}, false},
		"a missing file, too": {[]*report.Error{refused, refused, missing, refused, refused}, false},
		"a hold at once":      {[]*report.Error{login}, true},
		"up again":            {[]*report.Error{login, nil}, false},
	} {
		var o outages
		now := time.Now()
		for _, fault := range tt.saw {
			o.leave(up, fault, false, false, quick().Backoff, now)
		}
		if _, ok := o.enter(up, nil, now); ok == tt.down {
			t.Errorf("%s: a report may be tried: %v", name, ok)
		}
		if _, ok := o.enter("https://other", nil, now); !ok {
			t.Errorf("%s: another upstream is down, too", name)
		}
	}
}

// While an upstream is down one report at a time probes it, after a pause that grows; a cut probe says nothing.
func TestOutagesProbe(t *testing.T) {
	t.Parallel()
	const up = "https://portal"
	b := report.Backoff{Base: time.Second, Max: 10 * time.Second}
	var o outages
	now := time.Now()
	if down, news := o.leave(up, login, false, false, b, now); !down || !news {
		t.Fatal("a hold does not take it down")
	}
	if why, ok := o.enter(up, nil, now.Add(time.Second-1)); ok || why.Code != report.CodeUnauthorized || why.Reason != "login failed" || why.Upstream != up {
		t.Errorf("before the pause is over: %v, %+v", ok, why)
	}
	now = now.Add(time.Second)
	for range 3 {
		if _, ok := o.enter(up, nil, now); !ok {
			t.Fatal("nobody may probe")
		}
		if _, ok := o.enter(up, nil, now); ok {
			t.Fatal("two probe at once")
		}
		o.leave(up, nil, true, false, b, now)
	}
	if _, ok := o.enter(up, nil, now); !ok {
		t.Fatal("nobody may probe after one was cut")
	}
	now = now.Add(time.Hour)
	if down, news := o.leave(up, refused, false, false, b, now); !down || news {
		t.Error("a failed probe changes nothing")
	}
	if _, ok := o.enter(up, nil, now.Add(b.Max-1)); ok {
		t.Error("the pause does not grow")
	}
	now = now.Add(b.Max)
	if _, ok := o.enter(up, nil, now); !ok {
		t.Error("the pause grows beyond the longest delay")
	}
	if down, news := o.leave(up, nil, false, false, b, now); down || !news {
		t.Error("an answered probe does not open it")
	}
	for range 2 {
		if _, ok := o.enter(up, nil, now); !ok {
			t.Error("it is up, and somebody has to wait")
		}
	}
}

// A parked report tells a new process what is down, but not one that knows better; and its own fault does not count for all.
func TestOutagesBelieveTheParked(t *testing.T) {
	t.Parallel()
	const up = "https://portal"
	parked := &stream.Parking{Since: time.Now(), Upstream: up, Code: report.CodeConnection, Reason: "refused"}
	now := time.Now()
	var fresh outages
	if _, ok := fresh.enter(up, parked, now); !ok {
		t.Error("the first does not probe")
	}
	if why, ok := fresh.enter(up, parked, now); ok || why.Reason != "refused" {
		t.Errorf("the second: %v, %+v", ok, why)
	}
	var knows outages
	knows.leave(up, nil, false, false, quick().Backoff, now)
	for range 2 {
		if _, ok := knows.enter(up, parked, now); !ok {
			t.Error("it is known to be up")
		}
	}
	if down, _ := knows.leave(up, login, false, true, quick().Backoff, now); down {
		t.Error("a report that was parked and fails while others are answered takes the upstream down")
	}
}

// Strangers choose the hosts: what is remembered is bounded, and what is down is not forgotten for what is up.
func TestOutagesAreBounded(t *testing.T) {
	t.Parallel()
	var o outages
	now := time.Now()
	o.leave("https://down", login, false, false, quick().Backoff, now)
	for n := range 2 * knownHosts {
		o.leave(fmt.Sprintf("https://%d", n), nil, false, false, quick().Backoff, now)
	}
	if len(o.of) > knownHosts {
		t.Errorf("%d upstreams are remembered", len(o.of))
	}
	if _, ok := o.enter("https://down", nil, now); ok {
		t.Error("what is down was forgotten")
	}
	for n := range 2 * knownHosts {
		o.leave(fmt.Sprintf("https://%d", n), login, false, false, quick().Backoff, now)
	}
	if down, _ := o.leave("https://one-more", login, false, false, quick().Backoff, now); down || len(o.of) > knownHosts {
		t.Errorf("one more: down %v, %d remembered", down, len(o.of))
	}
}

func TestParkDelay(t *testing.T) {
	t.Parallel()
	b := report.Backoff{Base: 400 * time.Millisecond, Max: 5 * time.Minute}
	for _, tt := range []struct{ since, least time.Duration }{
		{-time.Hour, time.Second}, {0, time.Second}, {time.Minute, 30 * time.Second}, {24 * time.Hour, 5 * time.Minute},
	} {
		least, most := parkDelay(tt.since, b, func() float64 { return 0 }), parkDelay(tt.since, b, func() float64 { return 1 })
		if least != tt.least || most != 2*tt.least {
			t.Errorf("parked since %v: %v to %v, want %v and twice as much", tt.since, least, most, tt.least)
		}
	}
}
