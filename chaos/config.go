package chaos

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/report"
)

// Config says what a run does. Everything that is left to chance follows from it, so that the same Config has the same plan.
type Config struct {
	Seed     uint64        // of every random choice
	Servers  int           // 1, or 3 for a cluster with three replicas of everything
	URLs     []string      // of a cluster that runs already, like nats://user:pass@host:4222; empty: servers are started
	Workers  int           // worker processes
	Slots    int           // reports in work at once, per process
	Reports  int           // to be published
	Faults   int           // to be injected
	Duration time.Duration // over which reports and faults are spread
	AckWait  time.Duration // of the workers: so much silence loses a report to another
	Patience time.Duration // for the queues to empty after everything is healed
	Sync     bool          // the servers sync each write to the disk
	Dir      string        // for stores and logs; it is made, and stays. Empty: a temporary one that goes
}

// Default is a minute on one server.
func Default() Config {
	return Config{
		Servers: 1, Workers: 3, Slots: 8, Reports: 2000, Faults: 20, Duration: time.Minute, AckWait: 3 * time.Second, Patience: 10 * time.Minute,
	}
}

// Validate checks the settings.
func (c Config) Validate() error {
	switch {
	case c.Servers != 1 && c.Servers != 3:
		return fmt.Errorf("the number of servers is %d, allowed is 1 or 3", c.Servers)
	case len(c.URLs) > 64:
		return fmt.Errorf("%d addresses are given, allowed are 64", len(c.URLs))
	case c.Workers < 1 || c.Workers > 64:
		return fmt.Errorf("the number of workers is %d, allowed is 1 to 64", c.Workers)
	case c.Slots < 1 || c.Slots > 1024:
		return fmt.Errorf("the number of slots is %d, allowed is 1 to 1024", c.Slots)
	case c.Reports < len(mix) || c.Reports > 10_000_000:
		return fmt.Errorf("the number of reports is %d, allowed is %d to 10000000", c.Reports, len(mix))
	case c.Faults < 0 || c.Faults > 10_000:
		return fmt.Errorf("the number of faults is %d, allowed is 0 to 10000", c.Faults)
	case c.Duration < time.Second || c.Duration > 24*time.Hour:
		return fmt.Errorf("the duration is %v, allowed is 1s to 24h", c.Duration)
	case c.AckWait < time.Second || c.AckWait > time.Hour:
		return fmt.Errorf("the AckWait is %v, allowed is 1s to 1h", c.AckWait)
	case c.Patience <= 0:
		return errors.New("the patience must be above zero")
	}
	for _, address := range c.URLs {
		if u, err := url.Parse(address); err != nil || u.Scheme != "nats" || u.Port() == "" {
			return fmt.Errorf("the address %.200q is not like nats://host:port; TLS does not go through the proxies", report.Clean(address))
		}
	}
	return nil
}

// nodes is how many servers clients can connect to.
func (c Config) nodes() int {
	if len(c.URLs) > 0 {
		return len(c.URLs)
	}
	return c.Servers
}

// Command is the command line that repeats the run.
func (c Config) Command() string {
	line := []string{fmt.Sprintf("guyline chaos --seed %d --servers %d --workers %d --slots %d --reports %d --faults %d --for %v --ack-wait %v --patience %v",
		c.Seed, c.Servers, c.Workers, c.Slots, c.Reports, c.Faults, c.Duration, c.AckWait, c.Patience)}
	if c.Sync {
		line = append(line, "--sync-always")
	}
	for _, address := range c.URLs {
		line = append(line, "--url", report.RedactURI(address))
	}
	return strings.Join(line, " ")
}

// queueBytes bounds the publishers' queue: far more than a run needs.
const queueBytes = 1 << 30

// consumer is the configuration of every worker: the default attempts, and quick delays.
func (c Config) consumer() consumer.Config {
	out := consumer.DefaultConfig()
	out.Queues.Replicas, out.Queues.QueueBytes, out.Queues.AckWait = c.Servers, queueBytes, c.AckWait
	out.Queues.MaxAckPending = 5000
	out.Workers, out.AttemptTimeout, out.StopGrace, out.Sweep = c.Slots, 5*time.Second, 2*time.Second, 5*time.Second
	out.Backoff = report.Backoff{Base: 100 * time.Millisecond, Max: time.Second, Jitter: 100 * time.Millisecond}
	out.ReplayEvery = 0 // a letter stays what its report was meant for
	out.Version = "chaos"
	return out
}
