package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/stream"
)

// Kind is what a fault does.
type Kind string

// The kinds. docs/reliability.md says more about each.
const (
	KillWorker     Kind = "kill-worker"      // SIGKILL
	StopWorker     Kind = "stop-worker"      // SIGTERM
	KillServer     Kind = "kill-server"      // SIGKILL, and started again
	StopServer     Kind = "stop-server"      // SIGTERM, and started again
	FreezeServer   Kind = "freeze-server"    // SIGSTOP, then SIGCONT
	KillServers    Kind = "kill-servers"     // all of them at once
	StepDown       Kind = "step-down"        // a leader hands over
	Drop           Kind = "drop"             // every client's connection to a server is reset
	LoseToServer   Kind = "lose-to-server"   // what clients send does not arrive
	LoseFromServer Kind = "lose-from-server" // what a server sends does not arrive
	FullStream     Kind = "full-stream"      // MaxBytes of a stream is reached
	FullStore      Kind = "full-store"       // every server's JetStream store is full
	DeleteConsumer Kind = "delete-consumer"  // and made again by setup
)

// Target says what a fault hits: a number, or whoever leads something when the time has come.
type Target struct {
	Number   int    `json:"number"`             // of a worker or server, from 0
	Stream   string `json:"stream,omitempty"`   // its leader, or the stream itself
	Consumer bool   `json:"consumer,omitempty"` // the leader of the stream's consumer
}

// Fault is one disturbance. It heals itself.
type Fault struct {
	At     time.Duration `json:"at"` // since the beginning
	Kind   Kind          `json:"kind"`
	Target Target        `json:"target"`
	For    time.Duration `json:"for"`            // until it is healed
	Late   bool          `json:"late,omitempty"` // what was lost arrives after all; else its connections are reset
}

func (f Fault) String() string {
	s := fmt.Sprintf("%7.2fs  %-16s", f.At.Seconds(), f.Kind)
	switch {
	case f.Target.Consumer:
		s += " leader of the consumer of " + f.Target.Stream
	case f.Target.Stream != "" && (f.Kind == FullStream || f.Kind == DeleteConsumer):
		s += " " + f.Target.Stream
	case f.Target.Stream != "":
		s += " leader of " + f.Target.Stream
	case f.Kind != FullStore && f.Kind != KillServers:
		s += fmt.Sprintf(" %d", f.Target.Number+1)
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %.2fs", f.For.Seconds())
	}
	if f.Late {
		s += ", delivered late"
	}
	return s
}

// card is one of the faults that are dealt.
type card struct {
	kind     Kind
	stream   string
	consumer bool
}

// deck is every kind of fault as often as it is to occur among the others.
func deck(c Config) []card {
	cards := []card{
		{kind: KillWorker}, {kind: KillWorker}, {kind: KillWorker}, {kind: StopWorker}, {kind: StopWorker},
		{kind: Drop}, {kind: Drop}, {kind: LoseToServer}, {kind: LoseFromServer},
		{kind: FullStream, stream: dlq.Stream}, {kind: DeleteConsumer, stream: stream.Reports},
	}
	if c.Servers > 1 {
		cards = append(cards,
			card{kind: StepDown, stream: stream.Reports}, card{kind: StepDown, stream: stream.Reports, consumer: true}, card{kind: StepDown, stream: stream.Requeued},
			card{kind: FullStream, stream: audit.Stream}, card{kind: FullStream, stream: stream.Reports}, card{kind: DeleteConsumer, stream: stream.Requeued},
		)
	}
	if len(c.URLs) > 0 { // whoever runs those servers can do the rest
		return cards
	}
	cards = append(cards, card{kind: KillServer}, card{kind: StopServer}, card{kind: FreezeServer}, card{kind: FullStore})
	if c.Servers > 1 {
		for _, kind := range []Kind{KillServer, StopServer, FreezeServer} {
			cards = append(cards, card{kind: kind, stream: stream.Reports}, card{kind: kind, stream: stream.Reports, consumer: true})
		}
		cards = append(cards, card{kind: KillServer, stream: keyvalue.LedgerStream}, card{kind: KillServer, stream: dlq.Stream}, card{kind: KillServers})
	}
	return cards
}

// faults deals the deck, again and again, over the duration.
func faults(c Config, r *rand.Rand) []Fault {
	var cards []card
	var out []Fault
	for n := range c.Faults {
		if len(cards) == 0 {
			cards = deck(c)
			r.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
		}
		top := cards[0]
		cards = cards[1:]
		slot := float64(c.Duration) / float64(c.Faults)
		f := Fault{At: time.Duration((float64(n) + r.Float64()) * slot), Kind: top.kind, Target: Target{Stream: top.stream, Consumer: top.consumer}}
		many, long := c.nodes(), r.IntN(6) == 0
		switch top.kind {
		case KillWorker, StopWorker:
			many = c.Workers
		case StepDown, Drop:
		default:
			f.For = between(r, 200*time.Millisecond, 2*c.AckWait)
			if long { // longer than a client takes to notice
				f.For *= 2
			}
		}
		f.Target.Number, f.Late = r.IntN(many), r.IntN(2) == 0 && (top.kind == LoseToServer || top.kind == LoseFromServer)
		if top.stream != "" {
			f.Target.Number = 0
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return out
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(r.Int64N(int64(to-from)))).Round(10 * time.Millisecond)
}
