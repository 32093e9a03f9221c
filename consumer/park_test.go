package consumer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func refuse(context.Context) (report.Result, error) {
	return nil, report.Hold(report.CodeUnauthorized, errors.New("login failed"))
}

// The process dies between the parked copy and the ack, before it comes back and again when it does. The report lands or dies
// once, whatever becomes of copy and original.
func TestDeathDuringTheParking(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script []run
		want   invariant.Tally
	}{
		"lands": {[]run{refuse, refuse, succeed}, invariant.Tally{Done: 1}},
		"dies":  {[]run{refuse, refuse, poison}, invariant.Tally{Dead: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick()
			cfg.ParkMax, cfg.Workers = time.Hour, 1 // copy and original one after the other
			w := newWorld(t, cfg, script{"A": tt.script})
			w.publish("A")
			w.startDying(2, "7d copied")
			if got := w.ran("A"); got != 2 {
				t.Fatalf("the handler ran %d times before the last worker, want 2", got)
			}
			w.start()
			natstest.Eventually(t, "nothing to be stored", func() bool {
				left := uint64(0)
				for _, q := range stream.Names() {
					s, err := w.queues().State(context.Background(), q)
					if err != nil {
						return false
					}
					left += s.Stored
				}
				return left == 0
			})
			w.check(tt.want)
			if got := w.ran("A"); got != 3 {
				t.Errorf("the handler ran %d times, want 3", got)
			}
		})
	}
}

// A report that was put aside untried has not failed; the one that has found its upstream down has.
func TestParkedUntried(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.ParkMax, cfg.Workers = time.Hour, 1
	cfg.Backoff = report.Backoff{Base: time.Minute, Max: time.Minute} // nobody probes
	w := newWorld(t, cfg, script{"A": {refuse}})
	w.publish("A")
	w.start()
	w.await("A", Parked)
	w.publish("B")
	w.await("B", Parked)
	for site, failed := range map[string]bool{"A": true, "B": false} {
		c, err := w.queues().Copy(t.Context(), report.NewToken(site), report.NewKey(site, uri(site)))
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Carried; p.FirstFailedAt.IsZero() == failed || p.Attempts != 0 || p.Parking == nil || p.Parking.Code != report.CodeUnauthorized {
			t.Errorf("%s carries %+v, %+v", site, p, p.Parking)
		}
	}
	w.check(invariant.Tally{Waiting: 2})
}

// While the requeue stream takes nothing, reports are tried as if nothing were ever parked, and what the trail and the letters say of it is so.
func TestParkingRefused(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.ParkMax, cfg.Workers = time.Hour, 1
	cfg.Queues.AckWait = time.Hour // nothing is left to it
	w := newWorld(t, cfg, script{"A": times(4, refuse), "B": times(4, refuse)})
	s, err := w.js.Stream(t.Context(), stream.Requeued)
	if err != nil {
		t.Fatal(err)
	}
	full := s.CachedInfo().Config
	full.MaxMsgSize = 1
	if _, err := w.js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	w.publish("A", "B")
	w.start()
	w.check(invariant.Tally{Dead: 2})
	for _, site := range []string{"A", "B"} {
		w.checkLetter(site, dlq.Letter{
			Class: report.ClassExhausted, Code: report.CodeUnauthorized, Reason: "exhausted 4 attempts: login failed", Attempts: 4,
		})
		key := report.NewKey(site, uri(site))
		if failed, parked := len(w.events(key, audit.AttemptFailed)), len(w.events(key, audit.Parked)); failed != 3 || parked != 0 {
			t.Errorf("%s: the trail has %d failed attempts and %d parkings, want 3 and none", site, failed, parked)
		}
	}
}

// onceRefused is a network on which the first put in place of a copy is refused, as it is when another put of a replicated stream is on its way.
type onceRefused struct{ done *atomic.Bool }

func (d onceRefused) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return refusedConn{conn, d.done}, err
}

type refusedConn struct {
	net.Conn
	done *atomic.Bool
}

func (c refusedConn) Write(p []byte) (int, error) {
	expects := []byte("Nats-Expected-Last-Subject-Sequence: 1\r\n")
	if bytes.Contains(p, expects) && c.done.CompareAndSwap(false, true) {
		p = bytes.Replace(p, expects, []byte("Nats-Expected-Last-Subject-Sequence: 9\r\n"), 1)
	}
	return c.Conn.Write(p)
}

// A put that is refused although the newest copy is the message in hand does not make that a duplicate of itself. The attempt counts.
func TestNoDuplicateOfItself(t *testing.T) {
	t.Parallel()
	cfg := quick()
	cfg.ParkMax = time.Hour
	w := newWorld(t, cfg, script{"A": times(4, refuse)})
	w.keys = append(w.keys, report.NewKey("A", uri("A")))
	w.requeue("A", stream.Carried{PublishedAt: time.Now()})
	refused := new(atomic.Bool)
	w.run(w.open(nats.SetCustomDialer(onceRefused{refused})))
	w.await("A", Parked)
	w.check(invariant.Tally{Waiting: 1})
	if !refused.Load() || w.saw("A", Retried) != 1 || w.saw("A", Duplicate) > 0 {
		t.Errorf("refused %v, and the outcomes are %+v", refused.Load(), w.outcomes["A"])
	}
}
