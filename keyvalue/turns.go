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

// LongestTurn is the longest interval of a turn.
const LongestTurn = 24 * time.Hour

// turnsKept is when a turn is forgotten: some names are made of what strangers send, and they could be endless.
const turnsKept = 30 * 24 * time.Hour

// ErrTaken says that somebody else has written the turn since it was read.
var ErrTaken = errors.New("another worker has taken the turn")

// Turn is a worker's right to do what one of a fleet is to do at a time.
type Turn struct {
	Name   string        `json:"-"`
	Holder string        `json:"holder"`
	Over   bool          `json:"over,omitempty"`  // the holder has finished
	Pause  time.Duration `json:"pause,omitempty"` // what the holder asks for before the next turn, in nanoseconds

	Revision uint64        `json:"-"` // 0 if nobody has had the turn
	Age      time.Duration `json:"-"` // since it was written, by the server's clock, when it was read
	First    bool          `json:"-"` // of a turn that was won: nobody has had it before, or it is forgotten

	now, at time.Time // the server's clock, and this process's, when it was read
}

// Left is how long it takes, from when the turn was read, until it has been there for so long.
func (t Turn) Left(every time.Duration) time.Duration {
	if t.Revision == 0 || t.Age < -setBack {
		return 0
	}
	return max(0, every-t.Age)
}

// Now is the server's clock: what it said when the turn was read, and the time since.
func (t Turn) Now() time.Time { return t.now.Add(time.Since(t.at)) }

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

// Claim takes the turn of a name unless somebody has taken it within every. Of all workers that ask, one wins. If it
// is not won, the answer is the turn that stands; one that was taken at this very moment has no revision. Turns that nobody took are
// dropped.
//
// After an error the turn may have been taken. Then nobody has it until its time has passed.
func (t *Turns) Claim(ctx context.Context, name, holder string, every time.Duration) (turn Turn, won bool, err error) {
	last, err := t.Last(ctx, name)
	if err != nil || last.Left(every) > 0 {
		return last, false, err
	}
	last.Holder, last.Over, last.First = holder, false, last.Revision == 0
	turn, err = t.Renew(ctx, last)
	if errors.Is(err, ErrTaken) {
		return Turn{Name: name}, false, nil
	}
	return turn, err == nil, err
}

// Renew writes a turn that was read or taken: its time begins anew. If somebody has written it since, the error is [ErrTaken].
func (t *Turns) Renew(ctx context.Context, turn Turn) (Turn, error) {
	value, err := json.Marshal(turn)
	if err != nil {
		return Turn{}, fmt.Errorf("turn %s: %w", turn.Name, err)
	}
	rev, err := t.kv.Update(ctx, turn.Name, value, turn.Revision)
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
		return Turn{}, ErrTaken
	case err != nil:
		return Turn{}, fmt.Errorf("turn %s: %w", turn.Name, err)
	}
	turn.Revision, turn.Age = rev, 0
	return turn, nil
}

// Last asks the leader for the turn that was taken last, and for the time. The name must be fit for a key of a bucket.
func (t *Turns) Last(ctx context.Context, name string) (Turn, error) {
	var turn Turn
	got, err := jsapi.Last(ctx, t.js, turnsStream, "$KV."+turnsBucket+"."+name)
	found := err == nil
	if err != nil && !errors.Is(err, jsapi.ErrNotFound) {
		return Turn{}, fmt.Errorf("turn %s: %w", name, err)
	}
	s, err := t.js.Stream(ctx, turnsStream) // the leader answers
	if err != nil {
		return Turn{}, fmt.Errorf("turn %s: %w", name, err)
	}
	now := s.CachedInfo().TimeStamp
	if found {
		_ = json.Unmarshal(got.Data, &turn) // of anything else in its place only the time counts
		turn.Pause = min(max(turn.Pause, 0), LongestTurn)
		turn.Revision, turn.Age = got.Sequence, now.Sub(got.Time)
	}
	turn.Name, turn.now, turn.at = name, now, time.Now()
	return turn, nil
}
