package chaos

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/guyline/guyline/consumer"
)

// Result is what a run has shown.
type Result struct {
	Seed      uint64                `json:"seed"`
	Command   string                `json:"command"` // that repeats it
	Fates     map[Fate]int          `json:"fates"`   // intended
	Faults    map[Kind]int          `json:"faults"`  // that hit something
	Outcomes  map[consumer.Kind]int `json:"outcomes"`
	Published int                   `json:"published"` // reports, acknowledged
	Refused   int64                 `json:"refused"`   // tries to publish that were refused or not answered, and repeated
	Died      int                   `json:"workers_died"`

	Done      int `json:"done"`
	Dead      int `json:"dead"`
	Discarded int `json:"discarded"`
	Waiting   int `json:"waiting"`

	Abandoned     int     `json:"abandoned"`          // of any fate
	AbandonedMost int     `json:"abandoned_most"`     // that is let pass
	Innocent      int     `json:"innocent"`           // were to succeed, and are dead
	Expected      float64 `json:"innocent_expected"`  // by the share of lost deliveries, if each were lost by itself
	Most          int     `json:"innocent_most"`      // that is let pass
	LostShare     float64 `json:"deliveries_lost"`    // share of all deliveries that ended without a verdict
	KillerRuns    int     `json:"killer_runs"`        // most runs of one report that kills its worker
	Reruns        int     `json:"runs_after_settled"` // by a second worker that had the report too

	Recovery   []time.Duration `json:"-"`                  // from each heal to the next settled report, if nothing was broken meanwhile; sorted
	Median     time.Duration   `json:"recovery_median_ns"` //
	Worst      time.Duration   `json:"recovery_worst_ns"`  //
	Standstill time.Duration   `json:"standstill_ns"`      // longest time without a settled report, until the last heal
	First      time.Duration   `json:"healed_to_first_ns"` // from the last heal to the next settled report
	Empty      time.Duration   `json:"healed_to_empty_ns"` // from the last heal to empty queues
	Findings   []Finding       `json:"findings"`
}

const (
	// unlucky is how many times the expected number of reports may be lost to kills and outages, which do not come one by one.
	unlucky = 4
	// always may be lost, however few are expected.
	always = 10
)

// expect works out how many reports may be dead that were to succeed, and how many may be abandoned, from the deliveries that were lost.
func (r *Result) expect(p *Plan, lost, all int) {
	if all > 0 {
		r.LostShare = float64(lost) / float64(all)
	}
	attempts := p.Config.consumer().Queues.MaxAttempts
	killers, others := 0, 0.0
	for _, rep := range p.Reports {
		switch rep.Fate {
		case Succeed, Duplicated:
			r.Expected += atLeast(attempts-rep.At+1, attempts, r.LostShare)
		case Killer:
			killers++
		case Poison: // if every delivery is lost
			others += atLeast(attempts, attempts, r.LostShare)
		case Never: // if the last one is
			others += r.LostShare
		}
	}
	r.Most = bound(r.Expected)
	r.AbandonedMost = killers + r.Most + bound(others)
	if r.Innocent > r.Most {
		r.Findings = append(r.Findings, Finding{What: Unexplained, Text: fmt.Sprintf("%d reports that were to succeed are dead; kills and outages explain %d", r.Innocent, r.Most)})
	}
	if r.Abandoned > r.AbandonedMost {
		r.Findings = append(r.Findings, Finding{What: Unexplained, Text: fmt.Sprintf("%d reports are abandoned; kills and outages explain %d", r.Abandoned, r.AbandonedMost)})
	}
}

// bound is how many are let pass.
func bound(expected float64) int { return always + int(math.Ceil(unlucky*expected)) }

// atLeast is the probability that of n deliveries k or more are lost, if each is with probability p.
func atLeast(k, n int, p float64) (sum float64) {
	for i := k; i <= n; i++ {
		ways := 1.0
		for j := range i {
			ways = ways * float64(n-j) / float64(j+1)
		}
		sum += ways * math.Pow(p, float64(i)) * math.Pow(1-p, float64(n-i))
	}
	return sum
}

// recovered sorts the recoveries and takes the middle and the worst.
func (r *Result) recovered() {
	if slices.Sort(r.Recovery); len(r.Recovery) > 0 {
		r.Median, r.Worst = r.Recovery[len(r.Recovery)/2], r.Recovery[len(r.Recovery)-1]
	}
}

// Count is how many findings are of a kind.
func (r *Result) Count(what Wrong) (n int) {
	for _, f := range r.Findings {
		if f.What == what {
			n++
		}
	}
	return n
}
