package consumer

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/report"
)

func TestClock(t *testing.T) {
	t.Parallel()
	from := time.Now()
	to := from.Add(time.Second)
	for name, tt := range map[string]struct {
		server time.Time
		ahead  time.Duration
	}{
		"as its own":     {from.Add(time.Second / 2), 0},
		"an hour ahead":  {to.Add(time.Hour), time.Hour},
		"an hour behind": {from.Add(-time.Hour), -time.Hour},
	} {
		var c clock
		c.set(from.Add(time.Minute), from, to) // an earlier look
		c.set(tt.server, from, to)
		if got := time.Until(c.now()).Round(time.Minute); got != tt.ahead {
			t.Errorf("a server's clock that is %s: %v ahead", name, got)
		}
	}
}

// How long a report is parked does not depend on the worker's clock: it is the server that puts it back.
func TestParkingByTheServersClock(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.ParkMax = time.Hour
	cfg.Backoff = report.Backoff{Base: time.Minute, Max: time.Minute}
	w := newWorld(t, cfg, script{"A": {refuse}})
	w.publish("A")
	w.run(w.open(nats.SetCustomDialer(otherClock{})))
	w.await("A", Parked)
	m, err := w.queues().Copy(t.Context(), "A", w.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	year := time.Now().UTC().Year() + 1
	if at := m.Header.Get("Nats-Schedule"); !strings.HasPrefix(at, fmt.Sprintf("@at %d-", year)) || m.Carried.Parking.Since.Year() != year {
		t.Errorf("parked since %v until %s, want both in %d, by the server's clock", m.Carried.Parking.Since, at, year)
	}
	w.check(invariant.Tally{Waiting: 1})
}

// otherClock connects to a server whose clock is a year ahead.
type otherClock struct{}

func (otherClock) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return yearAhead{conn}, err
}

type yearAhead struct{ net.Conn }

func (c yearAhead) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	year := time.Now().UTC().Year()
	copy(p, bytes.ReplaceAll(p[:n], fmt.Appendf(nil, `"ts":"%d`, year), fmt.Appendf(nil, `"ts":"%d`, year+1)))
	return n, err
}
