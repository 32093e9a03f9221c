package keyvalue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
)

const (
	turnsBucket = "reports_turns"
	turnsStream = "KV_" + turnsBucket
	// setBack is how far in the future a turn may have been taken before the server's clock counts as set back.
	setBack = time.Minute
)

// LongestTurn is the longest interval of a turn. Turns are forgotten after twice that: their names come from what strangers send.
const LongestTurn = 24 * time.Hour

// Turn is a worker's right to do what one of a fleet is to do at a time.
type Turn struct {
	Name   string        `json:"-"`
	Holder string        `json:"holder"`
	Pause  time.Duration `json:"pause,omitempty"` // the next turn comes after this at the earliest, in nanoseconds
	Over   bool          `json:"over,omitempty"`  // the holder has finished

	Revision uint64        `json:"-"` // 0 if nobody has had the turn
	Age      time.Duration `json:"-"` // since it was written, by the server's clock, when it was read
	Now      time.Time     `json:"-"` // the server's clock then
}

// Left is how long it takes, from when the turn was read, until somebody may take the next one.
func (t Turn) Left(every time.Duration) time.Duration {
	if t.Revision == 0 || t.Age < -setBack {
		return 0
	}
	return max(0, max(every, t.Pause)-t.Age)
}

// Turns is the bucket reports_turns. It is safe for concurrent use.
//
// Time is the server's: when a turn was stored, and what the server's clock says when it is read. A worker's own clock has no
// part in it. If the server's clock is stepped, one turn may come early or late.
type Turns struct {
	js jetstream.JetStream
	kv jetstream.KeyValue
}

// OpenTurns finds the bucket; a missing one is [jetstream.ErrBucketNotFound].
func OpenTurns(ctx context.Context, js jetstream.JetStream) (*Turns, error) {
	kv, err := js.KeyValue(ctx, turnsBucket)
	if err != nil {
		return nil, fmt.Errorf("open the turns: %w", err)
	}
	return &Turns{js, kv}, nil
}

// Claim takes the turn of a name, which must be a key of a bucket, unless somebody has taken it within every, or
// within the pause that its holder left. Of all workers that ask, one wins. If it is not won, the answer is the turn
// that stands; one that was taken at this very moment has no revision. Turns that nobody claimed are dropped.
//
// After an error the turn may have been taken. Then nobody has it until its time has passed.
func (t *Turns) Claim(ctx context.Context, name, holder string, every time.Duration) (turn Turn, won bool, err error) {
	last, err := t.read(ctx, name)
	if err != nil {
		return Turn{}, false, fmt.Errorf("turn %s: %w", name, err)
	}
	if last.Left(every) > 0 {
		return last, false, nil
	}
	turn, err = t.Renew(ctx, Turn{Name: name, Holder: holder, Pause: last.Pause, Revision: last.Revision, Now: last.Now})
	if errors.Is(err, ErrConflict) {
		return Turn{Name: name}, false, nil
	}
	return turn, err == nil, err
}

// Renew writes a turn again: its time begins anew. It returns [ErrConflict] if somebody else has it by now.
func (t *Turns) Renew(ctx context.Context, turn Turn) (Turn, error) {
	value, err := json.Marshal(turn)
	if err != nil {
		return Turn{}, fmt.Errorf("turn %s: %w", turn.Name, err)
	}
	rev, err := t.kv.Update(ctx, turn.Name, value, turn.Revision)
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
		return Turn{}, ErrConflict
	case err != nil:
		return Turn{}, fmt.Errorf("turn %s: %w", turn.Name, err)
	}
	turn.Revision, turn.Age = rev, 0
	return turn, nil
}

// read asks the leader for a turn, and then for the time.
func (t *Turns) read(ctx context.Context, name string) (Turn, error) {
	var turn Turn
	got, err := jsapi.Last(ctx, t.js, turnsStream, "$KV."+turnsBucket+"."+name)
	found := err == nil
	if err != nil && !errors.Is(err, jsapi.ErrNotFound) {
		return Turn{}, err
	}
	s, err := t.js.Stream(ctx, turnsStream) // answered by the leader
	if err != nil {
		return Turn{}, err
	}
	if found {
		_ = json.Unmarshal(got.Data, &turn) // of anything else in its place only the time counts
		turn.Pause = min(max(turn.Pause, 0), LongestTurn)
		turn.Revision, turn.Age = got.Sequence, s.CachedInfo().TimeStamp.Sub(got.Time)
	}
	turn.Name, turn.Now = name, s.CachedInfo().TimeStamp
	return turn, nil
}
