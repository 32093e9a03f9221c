package consumer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Config is what a worker process depends on. [DefaultConfig] has the defaults.
type Config struct {
	Queues         stream.Config // workers and server must agree on MaxAttempts and AckWait
	Workers        int           // reports in work at once, at most 1,024
	Backoff        report.Backoff
	AttemptTimeout time.Duration // for one run of the handler
	StopGrace      time.Duration // after a stop, before running attempts are cut
	Sweep          time.Duration // how often to look for messages that the server will never deliver again
	ParkMax        time.Duration // how long a report may be parked in all, while its upstream is down; 0: reports are never parked
	ReplayMax      int           // how often one report may be replayed before its letter is quarantined
	DueWarn        time.Duration // a dead letter that is due within so long is logged as such; 0 = never

	// ReplayEvery is how often one worker of the fleet replays dead letters, 100 ms to 24 h. Those of an upstream that answers again are
	// replayed sooner: within a minute. 0 turns both off.
	ReplayEvery   time.Duration
	ReplayClasses []report.Class // which letters are replayed on schedule; on an upstream's recovery it is those that are exhausted
	ReplayRate    float64        // letters per second, of automatic replays, at most 1,000

	Worker  string // name of this process in letters and ledger, like host/4711
	Version string // of the program, for letters

	// InFlight is a file that names what is worked now, for a server that dies with its worker; empty: none. One process at a time.
	InFlight string

	// SyncedStore says that the server syncs every write to the disk. Results that are ready together are then committed together, so that one
	// sync serves many of them.
	SyncedStore bool

	// Observe, if set, is called once for every delivery, whatever became of it, from many goroutines. It must not wait for anything: the
	// server's answers to other commits wait behind it.
	Observe func(Outcome)
}

// GCPercent is what [debug.SetGCPercent] is well set to in a process that only works reports, for a server elsewhere: it keeps little and
// throws much away. With the default of 100 it spends a tenth more processor time, with this 20 MB more memory. A process that holds the
// server too is better left at the default.
const GCPercent = 400

// DefaultConfig is 4 workers per CPU, 4 attempts, delays of 400 ms, 800 ms, 1.6 s ... up to 5 min, each with
// up to 250 ms of jitter, 60 s for an attempt, 30 s AckWait, 20 s of grace, a sweep every 30 s, a warning of dead letters that are
// due within 24 h, and every hour a replay of what is exhausted or abandoned, at 10 letters per second.
func DefaultConfig() Config {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Config{
		Queues: stream.Config{
			Replicas: 1, QueueBytes: 8 << 30, Duplicates: 2 * time.Minute,
			AckWait: 30 * time.Second, MaxAttempts: 4, MaxAckPending: 20000,
		},
		Workers:        4 * runtime.NumCPU(),
		Backoff:        report.Backoff{Base: 400 * time.Millisecond, Max: 5 * time.Minute, Jitter: 250 * time.Millisecond},
		AttemptTimeout: time.Minute,
		StopGrace:      20 * time.Second,
		Sweep:          30 * time.Second,
		ParkMax:        24 * time.Hour,
		ReplayMax:      dlq.DefaultReplayMax,
		DueWarn:        24 * time.Hour,
		ReplayEvery:    time.Hour,
		ReplayClasses:  []report.Class{report.ClassExhausted, report.ClassAbandoned},
		ReplayRate:     10,
		Worker:         fmt.Sprintf("%s/%d", host, os.Getpid()),
		Version:        "dev",
	}
}

// Validate checks the settings against each other.
func (c Config) Validate() error {
	switch {
	case c.Workers < 1 || c.Workers > 1024:
		return fmt.Errorf("the number of Workers is %d, allowed is 1 to 1024", c.Workers)
	case c.Queues.MaxAttempts < 1 || c.Queues.MaxAttempts > 100:
		return fmt.Errorf("the MaxAttempts are %d, allowed is 1 to 100", c.Queues.MaxAttempts)
	case c.Backoff.Base <= 0 || c.Backoff.Max < c.Backoff.Base || c.Backoff.Jitter < 0:
		return errors.New("the Backoff needs 0 < Base <= Max and Jitter >= 0")
	case c.Queues.AckWait < 100*time.Millisecond:
		return fmt.Errorf("the AckWait is %v, at least 100ms are needed", c.Queues.AckWait)
	case max(c.AttemptTimeout, c.StopGrace, c.Sweep, c.Backoff.Max, c.Backoff.Jitter, c.Queues.AckWait) > 24*time.Hour:
		return errors.New("no duration may exceed 24h")
	case c.AttemptTimeout <= 0 || c.StopGrace < 0 || c.Sweep <= 0:
		return errors.New("the AttemptTimeout and Sweep must be above zero, StopGrace not below")
	case c.ParkMax < 0:
		return fmt.Errorf("the ParkMax is %v, it must not be below 0", c.ParkMax)
	case c.DueWarn < 0:
		return fmt.Errorf("the DueWarn is %v, it must not be below zero", c.DueWarn)
	case c.ReplayMax < 1:
		return fmt.Errorf("the ReplayMax is %d, at least 1 is needed", c.ReplayMax)
	case c.ReplayEvery != 0 && (c.ReplayEvery < 100*time.Millisecond || c.ReplayEvery > keyvalue.LongestTurn):
		return fmt.Errorf("the ReplayEvery is %v, allowed is 0, or 100ms to %v", c.ReplayEvery, keyvalue.LongestTurn)
	case c.ReplayEvery > 0 && (!(c.ReplayRate > 0) || c.ReplayRate > 1000):
		return fmt.Errorf("the ReplayRate is %v, allowed is above 0 to 1000", c.ReplayRate)
	case c.Queues.MaxAckPending <= c.Workers:
		return fmt.Errorf("the MaxAckPending is %d, it must exceed the %d workers: reports waiting for a retry count too", c.Queues.MaxAckPending, c.Workers)
	}
	for _, class := range c.ReplayClasses {
		if !slices.Contains([]report.Class{report.ClassPoison, report.ClassExhausted, report.ClassAbandoned}, class) {
			return fmt.Errorf("the ReplayClasses name %q, which is not a class of dead letters", class)
		}
	}
	return nil
}

// Setup creates or upgrades every stream, consumer and bucket that a worker needs.
func Setup(ctx context.Context, js jetstream.JetStream, cfg stream.Config) error {
	// What receives comes before what sends.
	if err := dlq.Setup(ctx, js, cfg.Replicas); err != nil {
		return err
	}
	if err := audit.Setup(ctx, js, cfg.Replicas); err != nil {
		return err
	}
	if err := keyvalue.Setup(ctx, js, cfg.Replicas); err != nil {
		return err
	}
	return stream.Setup(ctx, js, cfg)
}

// Streams are the names of all that [Setup] makes.
func Streams() []string {
	names := append(stream.Names(), dlq.Stream, audit.Stream)
	for _, bucket := range keyvalue.Streams(1) {
		names = append(names, bucket.Name)
	}
	return names
}
