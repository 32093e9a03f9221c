package doctor

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/stream"
)

// Wanted is what this process's configuration says.
type Wanted struct {
	Queues  stream.Config
	Workers int // of one process

	LedgerSet bool          // GUYLINE_LEDGER_TTL says for how long the ledger remembers; else whoever runs the server does
	LedgerTTL time.Duration // 0: for ever

	Store *Store // nil with a given server
}

// Store is an embedded store.
type Store struct {
	Dir      string
	LazySync bool    // what GUYLINE_SYNC says here
	Remote   bool    // another process holds it, with a setting of its own
	Free     *uint64 // bytes on its disk; nil: could not be read
}

// Facts is all that a look has found.
type Facts struct {
	Wanted
	Servers []Server
	Streams []Stream
	Account *jetstream.AccountInfo // nil: could not be read
	Sync    []Sync                 // of the servers that tell; to most users they do not
	Denied  []Denied
	Unread  []Unread
	Work    *Work // nil: could not be read
}

// Server is one of the addresses of GUYLINE_NATS_URL, or the embedded server.
type Server struct {
	Address    string // without passwords
	Name       string
	Version    string
	MaxPayload int64
	Err        string // it does not answer
}

// Sync is how one server writes to its disk.
type Sync struct {
	Server   string
	Always   bool
	Interval time.Duration
}

// Denied is something that the server does not permit this user.
type Denied struct {
	Act     string // publish or subscribe
	Subject string
}

// Unread is something that could not be read.
type Unread struct{ Where, Err string }

// Work is what the two queues hold.
type Work struct {
	Waiting, InWork, Stranded uint64
	Pulling                   int
}

// role is what a stream is for.
type role int

const (
	queue role = iota
	requeue
	letters
	trail
	checkpoints
	ledger
	sites
	turns
)

// loses says what it means when a stream drops what it holds.
var loses = map[role]string{
	queue:       "reports are dropped, and nobody is told",
	requeue:     "reports are dropped, and nobody is told",
	letters:     "dead letters are dropped, and their reports have no fate",
	trail:       "events are dropped: deaths go unexplained and the trail cannot be proved",
	checkpoints: "signed checkpoints are dropped, and with them the proof",
	ledger:      "settled reports are forgotten, and their repeats worked again",
	sites:       "known sites are forgotten, and their reports die as unknown-site",
	turns:       "turns are forgotten, and two workers may replay the same letters",
}

// Stream is one of our streams as it should be and as it is.
type Stream struct {
	role   role
	aged   bool // of the ledger: its age is ours to say
	Want   jetstream.StreamConfig
	Have   *jetstream.StreamInfo // nil: there is none
	Holder string                // if there is none: the stream that has its subjects
	Skew   time.Duration         // of its leader's clock, ahead of this machine's; what the way took is taken off

	Consumer *Consumer // of a queue
	Others   []string  // names of further consumers of a queue
}

// Consumer is the consumer of a queue as it should be and as it is.
type Consumer struct {
	Workers int // of one process
	Want    jetstream.ConsumerConfig
	Have    *jetstream.ConsumerInfo // nil: there is none
}

// streams lists every stream of ours as setup makes it, in the order of the roles.
func (w Wanted) streams() (all []Stream) {
	q, n := w.Queues, w.Queues.Replicas
	for i, s := range q.Streams() {
		all = append(all, Stream{role: role(i), Want: s, Consumer: &Consumer{Workers: w.Workers, Want: q.Consumer(s.Name)}})
	}
	all = append(all, Stream{role: letters, Want: dlq.StreamConfig(n)}, Stream{role: trail, Want: audit.StreamConfig(n)},
		Stream{role: checkpoints, Want: proof.StreamConfig(n)})
	for i, s := range keyvalue.Streams(n) {
		all = append(all, Stream{role: ledger + role(i), Want: s})
	}
	all[ledger].Want.MaxAge, all[ledger].aged = w.LedgerTTL, w.LedgerSet
	return all
}
