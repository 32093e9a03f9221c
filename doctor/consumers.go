package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/stream"
)

// consumerChecks is every trap that the consumer of a queue can have.
var consumerChecks = []func(Stream, Consumer) []Finding{
	fixed, backOff, maxDeliver, ackWait, filter, maxAckPending, requests, headersOnly, inactive, groups, paused, consumerReplicas,
}

// leastWaiting is how many worker processes can pull at once by default; fewer is worth a note.
const leastWaiting = 512

// longestPull is for how long a worker asks a consumer to keep its pull, mostPulled for how many reports at most.
const (
	longestPull = time.Second
	mostPulled  = 256
)

func where(s Stream) string { return s.Want.Name + "/" + stream.Consumer }

func missingConsumer(s Stream) []Finding {
	others := ""
	if len(s.Others) > 0 {
		others = ", but there are others, such as " + s.Others[0]
	}
	if others == "" {
		return []Finding{repaired("missing", where(s), "the consumer does not exist", "nothing is delivered from the queue")}
	}
	return append([]Finding{repaired("missing", where(s), "the consumer does not exist"+others, "nothing is delivered to the workers")}, otherConsumers(s)...)
}

func otherConsumers(s Stream) (findings []Finding) {
	for _, name := range s.Others {
		findings = append(findings, byHand("second-consumer", s.Want.Name, "there is another consumer, "+name, "who uses it takes reports away from the workers",
			"nats consumer rm "+s.Want.Name+" "+name))
	}
	return findings
}

// held says that setup changes something only when nothing is in work.
func held(f Finding, c Consumer) Finding {
	if n := c.Have.NumAckPending; n > 0 {
		f.Do = fmt.Sprintf("`guyline setup` repairs it once nothing is in work or waiting for a retry (now %d): stop the workers then", n)
	}
	return f
}

// fixed finds what no update can change.
func fixed(s Stream, c Consumer) (findings []Finding) {
	do := "delete it when nothing is in work or waiting for a retry (nats consumer rm " + s.Want.Name + " " + stream.Consumer + "), then run `guyline setup`"
	have := c.Have.Config
	for _, x := range []struct {
		is                   bool
		check, what, follows string
	}{
		{have.DeliverSubject != "", "push", "it pushes to " + have.DeliverSubject, "workers cannot pull from it"},
		{have.AckPolicy != jetstream.AckExplicitPolicy, "ack-policy", "its ack policy is " + have.AckPolicy.String(), "an ack removes reports that are in work"},
		{have.DeliverPolicy != jetstream.DeliverAllPolicy, "deliver-policy", "it does not deliver all", "older reports are never worked"},
		{have.ReplayPolicy != jetstream.ReplayInstantPolicy, "replay-policy", "it replays at the original pace", "a backlog is worked as slowly as it came"},
		{have.MemoryStorage, "storage", "its state is kept in memory", "when its servers stop, attempts are forgotten and a report that kills its workers is tried again and again"},
	} {
		if x.is {
			findings = append(findings, byHand(x.check, where(s), x.what, x.follows, do))
		}
	}
	if n := have.MaxWaiting; n > 0 && n < leastWaiting {
		findings = append(findings, note("max-waiting", where(s), fmt.Sprintf("it keeps %d pulls at most", n), "no more worker processes can wait for reports at once", "if you have as many: "+do))
	}
	return findings
}

func backOff(s Stream, c Consumer) []Finding {
	if len(c.Have.Config.BackOff) == 0 {
		return nil
	}
	return []Finding{held(repaired("backoff", where(s), "it has a BackOff", "retries come seconds later than they were asked for, and AckWait is its first step"), c)}
}

func maxDeliver(s Stream, c Consumer) []Finding {
	have, want := c.Have.Config.MaxDeliver, c.Want.MaxDeliver
	if have == want {
		return nil
	}
	what := fmt.Sprintf("its MaxDeliver is %d, but GUYLINE_MAX_ATTEMPTS + %d is %d", have, stream.SpareDeliveries, want)
	follows := "workers do not start; those that run give reports more attempts than were asked for"
	switch {
	case have <= 0:
		what, follows = fmt.Sprintf("it has no MaxDeliver, where GUYLINE_MAX_ATTEMPTS + %d is %d", stream.SpareDeliveries, want), "a report that kills its workers is delivered for ever"
	case have < want:
		follows = "workers do not start; reports that have had as many deliveries are left in the queue without a verdict"
	}
	return []Finding{held(repaired("max-deliver", where(s), what, follows), c)}
}

func ackWait(s Stream, c Consumer) (findings []Finding) {
	have, want := c.Have.Config.AckWait, c.Want.AckWait
	if have != want && len(c.Have.Config.BackOff) == 0 { // which sets it
		findings = append(findings, held(repaired("ack-wait", where(s), fmt.Sprintf("its AckWait is %v, but GUYLINE_ACK_WAIT is %v", have, want),
			"workers do not start; those that run lose reports that they are working on to others, or hold them for too long"), c))
	}
	if want < 10*time.Second && s.Want.Replicas > 1 {
		findings = append(findings, note("ack-wait", where(s), fmt.Sprintf("GUYLINE_ACK_WAIT is %v, and the election of a leader takes up to 10s", want),
			"when a server dies, reports in work are given to others, and an attempt is lost", "set GUYLINE_ACK_WAIT above 10s, then run `guyline setup`"))
	}
	return findings
}

func filter(s Stream, c Consumer) []Finding {
	have := c.Have.Config.FilterSubjects
	if f := c.Have.Config.FilterSubject; f != "" {
		have = append(have, f)
	}
	is, want := strings.Join(have, ", "), c.Want.FilterSubject
	switch {
	case is == want, want == "" && len(s.Want.Subjects) == 1 && is == s.Want.Subjects[0]:
		return nil
	case want == "":
		return []Finding{repaired("filter", where(s), "it takes only "+is, "other reports are never worked")}
	case is == "":
		return []Finding{repaired("filter", where(s), "it has no filter", "parked reports are delivered at once")}
	}
	return []Finding{repaired("filter", where(s), "it takes "+is+", not "+want, "reports are never worked, or parked ones at once")}
}

func maxAckPending(s Stream, c Consumer) []Finding {
	have, want := c.Have.Config.MaxAckPending, c.Want.MaxAckPending
	what := fmt.Sprintf("its MaxAckPending is %d, but GUYLINE_MAX_ACK_PENDING is %d", have, want)
	switch {
	case have <= 0 || have == want:
		return nil
	case have <= c.Workers:
		return []Finding{repaired("max-ack-pending", where(s), what, fmt.Sprintf("the %d workers of one process cannot all have a report", c.Workers))}
	case have < want:
		return []Finding{repaired("max-ack-pending", where(s), what, "when so many reports wait for a retry, fresh ones wait behind them")}
	}
	return []Finding{repaired("max-ack-pending", where(s), what, "more reports can wait for a retry than was asked for")}
}

// requests finds limits that refuse a worker's pull.
func requests(s Stream, c Consumer) []Finding {
	have := c.Have.Config
	if have.MaxRequestMaxBytes == 0 && (have.MaxRequestExpires == 0 || have.MaxRequestExpires >= longestPull) &&
		(have.MaxRequestBatch == 0 || have.MaxRequestBatch >= min(c.Workers, mostPulled)) {
		return nil
	}
	return []Finding{repaired("pull-limits", where(s), "it limits what a pull may ask for", "the pulls of workers are refused")}
}

func headersOnly(s Stream, c Consumer) []Finding {
	if !c.Have.Config.HeadersOnly {
		return nil
	}
	return []Finding{repaired("headers-only", where(s), "it delivers headers only", "every report dies as undecodable")}
}

func inactive(s Stream, c Consumer) []Finding {
	d := c.Have.Config.InactiveThreshold
	if d == 0 {
		return nil
	}
	return []Finding{repaired("inactive", where(s), "the server deletes it when nobody has pulled for "+days(d), "attempts are forgotten, and workers stand still")}
}

func groups(s Stream, c Consumer) []Finding {
	if len(c.Have.Config.PriorityGroups) == 0 {
		return nil
	}
	return []Finding{repaired("priority-groups", where(s), "it has priority groups", "the pulls of workers are refused")}
}

func paused(s Stream, c Consumer) []Finding {
	if !c.Have.Paused {
		return nil
	}
	until := ""
	if t := c.Have.Config.PauseUntil; t != nil {
		until = " until " + t.UTC().Format(time.RFC3339)
	}
	return []Finding{byHand("paused", where(s), "it is paused"+until, "nothing is delivered until then", "nats consumer resume "+s.Want.Name+" "+stream.Consumer)}
}

func consumerReplicas(s Stream, c Consumer) []Finding {
	have, want := c.Have.Config.Replicas, max(1, s.Have.Config.Replicas)
	if have == 0 || have == want {
		return nil
	}
	return []Finding{repaired("replicas", where(s), fmt.Sprintf("it has %s, its stream %d", plural(uint64(have), "replica", "replicas"), want), "it is the first to stand still when servers stop")}
}
