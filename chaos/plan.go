package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Fate is what is to become of a report.
type Fate string

// The fates. What the handler does is in [script.handle].
const (
	Succeed     Fate = "succeed"     // at its first, second or third run
	Poison      Fate = "poison"      // refused at its first run
	Never       Fate = "never"       // fails at every run
	Killer      Fate = "killer"      // kills the worker that runs it
	Undecodable Fate = "undecodable" // its event cannot be read
	Duplicated  Fate = "duplicated"  // succeeds, and is published three times, once under no Nats-Msg-Id
)

// mix is how many of a thousand reports have which fate; killers are counted apart.
var mix = []struct {
	fate  Fate
	at    int // the run that succeeds
	share int
}{
	{Succeed, 1, 640}, {Succeed, 2, 120}, {Succeed, 3, 60}, {Poison, 0, 60}, {Never, 0, 40}, {Undecodable, 0, 30}, {Duplicated, 1, 50},
}

// reportsPerKiller: each killer costs as many workers as there are attempts, with all that they have in hand.
const reportsPerKiller = 1500

// Report is one report of a plan.
type Report struct {
	Key  report.Key
	Site string
	URI  string
	Fate Fate
	At   int // the run that succeeds; 0 if none does
	Body []byte
}

// send is one publication: a report may have several.
type send struct {
	report int
	bare   bool // without Nats-Msg-Id, as a publisher who knows no better
}

// Plan is everything that a run will do.
type Plan struct {
	Config  Config
	Reports []Report
	Faults  []Fault
	sends   []send
}

// NewPlan makes the plan of a configuration: the same one for the same configuration.
func NewPlan(c Config) *Plan {
	p := &Plan{Config: c}
	r := rand.New(rand.NewPCG(c.Seed, 1))
	killers := max(1, c.Reports/reportsPerKiller)
	for i := range c.Reports {
		fate, at := Killer, 0
		if i >= killers {
			n := r.IntN(1000)
			for _, m := range mix {
				if fate, at = m.fate, m.at; n < m.share {
					break
				}
				n -= m.share
			}
		}
		p.Reports = append(p.Reports, newReport(c.Seed, i, fate, at))
	}
	for i, rep := range p.Reports {
		p.sends = append(p.sends, send{report: i})
		if rep.Fate == Duplicated {
			p.sends = append(p.sends, send{report: i}, send{report: i, bare: true})
		}
	}
	r.Shuffle(len(p.sends), func(i, j int) { p.sends[i], p.sends[j] = p.sends[j], p.sends[i] })
	p.Faults = faults(c, rand.New(rand.NewPCG(c.Seed, 2)))
	return p
}

func newReport(seed uint64, i int, fate Fate, at int) Report {
	e := report.Event{
		SiteID: fmt.Sprint("CHAOS-", i%50), SourceURI: fmt.Sprintf("chaos://%d/%d.pdf", seed, i),
		Metadata: map[string]any{"fate": string(fate), "at": at, "pause_ms": 2 + i%29},
	}
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers
	}
	out := Report{Key: e.Key(), Site: e.SiteID, URI: e.SourceURI, Fate: fate, At: at, Body: body}
	if fate == Undecodable {
		out.Body = body[:len(body)-1]
		out.Key = stream.Read(stream.Ref{}, "", nil, out.Body, time.Time{}).Key
	}
	return out
}

// answer is the right result of a report, whoever works it.
func answer(key report.Key) string { return report.PayloadHash([]byte("answer " + key)) }
