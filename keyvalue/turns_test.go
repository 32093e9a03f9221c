package keyvalue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
)

func openTurns(t testing.TB, js jetstream.JetStream) *keyvalue.Turns {
	t.Helper()
	turns, err := keyvalue.OpenTurns(context.Background(), js)
	if err != nil {
		t.Fatal(err)
	}
	return turns
}

// claim expects that a claim is won, or not.
func claim(t testing.TB, turns *keyvalue.Turns, name, holder string, every time.Duration, want bool) keyvalue.Turn {
	t.Helper()
	turn, won, err := turns.Claim(context.Background(), name, holder, every)
	if err != nil || won != want {
		t.Fatalf("%s claims %s: won %v, %v; want %v", holder, name, won, err, want)
	}
	return turn
}

func TestLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		turn keyvalue.Turn
		want time.Duration
	}{
		{"nobody has had it", keyvalue.Turn{}, 0},
		{"just taken", keyvalue.Turn{Revision: 1}, time.Hour},
		{"half-time", keyvalue.Turn{Revision: 1, Age: 30 * time.Minute}, 30 * time.Minute},
		{"over", keyvalue.Turn{Revision: 1, Age: time.Hour}, 0},
		{"long over", keyvalue.Turn{Revision: 1, Age: 30 * time.Hour}, 0},
		{"another leader's clock is behind a little", keyvalue.Turn{Revision: 1, Age: -time.Second}, time.Hour + time.Second},
		{"the server's clock was set back by an hour", keyvalue.Turn{Revision: 1, Age: -time.Hour}, 0},
		{"the server's clock was set forward by an hour", keyvalue.Turn{Revision: 1, Age: 61 * time.Minute}, 0},
	} {
		if got := c.turn.Left(time.Hour); got != c.want {
			t.Errorf("%s: %v are left, want %v", c.what, got, c.want)
		}
	}
}

func TestTurnIsWonOnce(t *testing.T) {
	t.Parallel()
	js := setUp(t)
	turns := openTurns(t, js)
	var won atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, ok, err := turns.Claim(context.Background(), "replay", "host/1", time.Hour); err != nil {
				t.Error(err)
			} else if ok {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won the turn, want 1", won.Load())
	}
	claim(t, turns, "another", "host/2", time.Hour, true)
	// A fleet that is started anew goes on where the last one was.
	claim(t, openTurns(t, js), "replay", "host/3", time.Hour, false)
}

// Of the turns that nobody took one is made up for, whatever their number.
func TestLateTurnsAreDropped(t *testing.T) {
	t.Parallel()
	turns := openTurns(t, setUp(t))
	if !claim(t, turns, "replay", "host/1", time.Hour, true).First {
		t.Error("the first turn is not called the first")
	}
	const every = 20 * time.Millisecond
	natstest.Eventually(t, "five intervals to pass", func() bool {
		return claim(t, turns, "replay", "host/1", time.Hour, false).Age > 5*every
	})
	if claim(t, turns, "replay", "host/2", every, true).First {
		t.Error("a turn that another has had before is called the first")
	}
	stands := claim(t, turns, "replay", "host/1", time.Hour, false)
	if stands.Holder != "host/2" || stands.Left(time.Hour) < 59*time.Minute {
		t.Errorf("after a late turn %s has it and the next comes in %v, want host/2 and a whole interval", stands.Holder, stands.Left(time.Hour))
	}
}

// The holder of a turn keeps it by renewing it, and what it leaves can be read by the others.
func TestTurnIsRenewed(t *testing.T) {
	t.Parallel()
	turns := openTurns(t, setUp(t))
	mine := claim(t, turns, "replay", "host/1", time.Hour, true)
	natstest.Eventually(t, "the turn to age", func() bool {
		return claim(t, turns, "replay", "host/2", time.Hour, false).Age > 50*time.Millisecond
	})
	mine.Over, mine.Pause = true, 5*time.Minute
	mine, err := turns.Renew(context.Background(), mine)
	if err != nil {
		t.Fatal(err)
	}
	last, err := turns.Last(context.Background(), "replay")
	if err != nil || last.Holder != "host/1" || !last.Over || last.Pause != 5*time.Minute || last.Revision != mine.Revision {
		t.Errorf("the others read %+v, %v", last, err)
	}
	taken := claim(t, turns, "replay", "host/2", 0, true)
	if taken.Over || taken.Pause != 5*time.Minute {
		t.Errorf("the next holder has %+v, want a turn that is not over and knows the pause", taken)
	}
	if _, err := turns.Renew(context.Background(), mine); !errors.Is(err, keyvalue.ErrTaken) {
		t.Errorf("the turn that another has: got %v, want ErrTaken", err)
	}
}

// Whatever lies in a turn's place blocks it for an interval and no longer, and a deleted one can be taken at once or later.
func TestGarbledTurn(t *testing.T) {
	t.Parallel()
	js := setUp(t)
	turns := openTurns(t, js)
	kv, err := js.KeyValue(t.Context(), "reports_turns")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"text": "hello", "number": "7", "endless": `{"pause": 9223372036854775807}`, "before": `{"pause": -5}`, "empty": "",
	} {
		if _, err := kv.PutString(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
		if last := claim(t, turns, name, "host/1", time.Hour, false); last.Left(time.Hour) > time.Hour || last.Pause < 0 || last.Pause > keyvalue.LongestTurn {
			t.Errorf("%s: taken for %+v", name, last)
		}
	}
	if err := kv.Delete(t.Context(), "text"); err != nil {
		t.Fatal(err)
	}
	claim(t, turns, "text", "host/1", 0, true)
	claim(t, turns, "text", "host/1", time.Hour, false)
}
