package doctor

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/stream"
)

// serverChecks is every trap that is not one of a single stream.
var serverChecks = []func(Facts) []Finding{
	unanswered, versions, payload, permissions, unread, quorum, clock, account, powerFailure, disk, stranded, idle,
}

// oldest is the oldest server that gives up on a report as it should.
var oldest = [3]int{2, 15, 1}

// leastPayload is what a server must take at once: a dead letter is a whole report with headers.
const leastPayload = 1 << 20

// mostSkew is how far two clocks may be apart.
const mostSkew = 5 * time.Second

func unanswered(f Facts) (findings []Finding) {
	for _, s := range f.Servers {
		if s.Err != "" {
			findings = append(findings, person("unreachable", s.Address, "it does not answer ("+s.Err+")", "when the others stop, workers and publishers have nowhere to go",
				"start it, or take it out of GUYLINE_NATS_URL"))
		}
	}
	return findings
}

func versions(f Facts) (findings []Finding) {
	for _, s := range f.Servers {
		if s.Err == "" && older(s.Version, oldest) {
			findings = append(findings, person("version", s.Address, "its version is "+s.Version,
				"before 2.15.1 reports that used up their deliveries can be lost or go unnoticed", "upgrade nats-server to 2.15.1 or later"))
		}
	}
	return findings
}

// older reports whether a version is before another. One that cannot be read is not.
func older(version string, than [3]int) bool {
	var v [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
		return false
	}
	for i := range v {
		if v[i] != than[i] {
			return v[i] < than[i]
		}
	}
	return strings.Contains(version, "-") // a preview of it
}

func payload(f Facts) (findings []Finding) {
	for _, s := range f.Servers {
		if s.Err == "" && s.MaxPayload < leastPayload {
			findings = append(findings, person("max-payload", s.Address, fmt.Sprintf("it takes messages of at most %d bytes", s.MaxPayload),
				"workers do not start, as a large report could not be dead-lettered", "set max_payload: 1MB in its configuration"))
		}
	}
	return findings
}

// permissions tells of what looks like a server that does not answer.
func permissions(f Facts) (findings []Finding) {
	for _, d := range f.Denied {
		follows, needed := "it looks like a server that does not answer", needs(d.Subject)
		if needed != "" {
			follows = needed + ", and it looks like a server that does not answer"
		}
		findings = append(findings, person("permission", "permissions", "this user may not "+d.Act+" to "+d.Subject, follows, "grant it in the server's configuration, if this user is to do that"))
	}
	return findings
}

func unread(f Facts) (findings []Finding) {
	for _, u := range f.Unread {
		findings = append(findings, person("unread", u.Where, "it could not be read ("+u.Err+")", "nothing is known about it", "if permissions are named above, grant them; otherwise look at the server's log"))
	}
	return findings
}

func quorum(f Facts) []Finding {
	if n := f.Queues.Replicas; n > 1 && n%2 == 0 {
		return []Finding{note("quorum", "replicas", fmt.Sprintf("GUYLINE_REPLICAS is %d", n), "that survives no more failures than one less, as more than half must run", "use 3 or 5")}
	}
	return nil
}

// clock looks at the largest difference; the servers of a cluster have a clock each.
func clock(f Facts) []Finding {
	var most Stream
	for _, s := range f.Streams {
		if s.Skew.Abs() > most.Skew.Abs() {
			most = s
		}
	}
	if most.Skew.Abs() <= mostSkew {
		return nil
	}
	which, way := "the server's", "ahead of"
	if c := most.Have.Cluster; c != nil && c.Leader != "" {
		which = "the clock of " + c.Leader
	} else {
		which += " clock"
	}
	if most.Skew < 0 {
		way = "behind"
	}
	return []Finding{person("clock", "clock", fmt.Sprintf("%s is %v %s this machine's", which, most.Skew.Abs().Round(time.Second), way),
		"deadlines, parked reports and the times in the trail are off by as much", "set both clocks by NTP")}
}

// account finds limits of the account that are near.
func account(f Facts) (findings []Finding) {
	if f.Account == nil {
		return nil
	}
	tiers := f.Account.Tiers
	if len(tiers) == 0 {
		tiers = map[string]jetstream.Tier{"": f.Account.Tier}
	}
	for name, t := range tiers {
		where := strings.TrimSpace("account " + name)
		findings = append(findings, fill("account", where, "bytes", float64(t.Store), limit(t.Limits.MaxStore), "when it is full, nothing more is stored", "raise the account's max_file")...)
	}
	return findings
}

// limit is a limit as a number; -1 is none, and so is more than a disk has.
func limit(n int64) float64 {
	if n <= 0 || n == math.MaxInt64 {
		return 0
	}
	return float64(n)
}

func stranded(f Facts) []Finding {
	if f.Work == nil || f.Work.Stranded == 0 {
		return nil
	}
	what := plural(f.Work.Stranded, "report is stranded", "reports are stranded")
	if f.Work.Pulling > 0 || f.Work.InWork > 0 {
		return []Finding{note("stranded", "queues", what, "the server will not deliver them again", "the sweep of a worker buries them: look again in a few minutes")}
	}
	return []Finding{person("stranded", "queues", what, "the server will not deliver them again", "start a worker (`guyline run`), whose sweep buries them with a reason")}
}

func idle(f Facts) []Finding {
	switch {
	case f.Work == nil || f.Work.Pulling > 0 || f.Work.InWork > 0:
		return nil
	case f.Work.Waiting == 0:
		return []Finding{note("workers", "workers", "none is pulling", "nothing is waiting either", "`guyline run` starts one")}
	}
	return []Finding{person("workers", "workers", "none is pulling, and "+plural(f.Work.Waiting, "report waits", "reports wait"), "nothing is worked", "`guyline run` starts one")}
}

// needs says what a subject is needed for.
func needs(subject string) string {
	for _, p := range probes() {
		if p.subject == subject {
			return p.purpose
		}
	}
	switch {
	case strings.HasPrefix(subject, "_INBOX"):
		return "without an inbox no answer arrives"
	case strings.Contains(subject, ".API.STREAM.INFO."), strings.Contains(subject, ".API.CONSUMER.INFO."):
		return "workers and status look there"
	case strings.Contains(subject, ".API.CONSUMER.MSG.NEXT."), strings.HasPrefix(subject, "$JS.ACK."+stream.Reports):
		return "workers need it"
	}
	return ""
}
