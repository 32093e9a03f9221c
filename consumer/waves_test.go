package consumer

import (
	"testing"
	"time"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/invariant"
)

// Other upstreams have the pace for longer than a wave is waited for: the letter's turn comes all the same, and the upstream's turn is
// given back.
func TestWaitForThePaceIsNoPatience(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick(), script{"TWR-1": {poison, succeed}})
	w.publish("TWR-1")
	w.start()
	w.await("TWR-1", Buried)
	w.cfg.ReplayEvery, w.cfg.ReplayRate = 5*time.Second, 5
	k := w.open()
	for k.pace.Tokens() > -1.2*w.cfg.ReplayRate*k.patience().Seconds() {
		k.pace.Reserve()
	}
	plan, err := k.letters.Plan(t.Context(), dlq.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	turn, _, won, err := k.takeUpstream(t.Context(), "s3://reports", false)
	if !won || err != nil {
		t.Fatal(won, err)
	}
	if err := k.replayUpstream(t.Context(), turn, "s3://reports", plan.Send, "on schedule"); err != nil {
		t.Errorf("replay: %v", err)
	}
	if turn, err := k.turns.Last(t.Context(), turn.Name); err != nil || !turn.Over {
		t.Errorf("the turn is not given back: %+v, %v", turn, err)
	}
	w.check(invariant.Tally{Done: 1})
}
