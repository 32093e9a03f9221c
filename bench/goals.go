package bench

import (
	"fmt"
	"slices"
)

// Verdict says how a goal was met.
type Verdict string

const (
	WorldClass Verdict = "world-class"
	Accepted   Verdict = "accepted"
	Missed     Verdict = "missed"
)

// Goal is one of the goals of docs/performance.md, and what was reached: the median counts.
type Goal struct {
	Number     int     `json:"number"`
	What       string  `json:"what"`
	Reached    Range   `json:"reached"`
	Accept     float64 `json:"accept"`
	WorldClass float64 `json:"world_class"`
	AtMost     bool    `json:"at_most"` // less is better
	Verdict    Verdict `json:"verdict"`
}

// Judge says how the median of what was reached meets the goal.
func (g Goal) Judge() Verdict {
	reaches := func(line float64) bool { return g.Reached.Median >= line }
	if g.AtMost {
		reaches = func(line float64) bool { return g.Reached.Median <= line }
	}
	switch {
	case reaches(g.WorldClass):
		return WorldClass
	case reaches(g.Accept):
		return Accepted
	}
	return Missed
}

// aim is a goal before it was measured.
type aim struct {
	number             int
	to                 Design
	cpu                bool // the ratio is of processor time, and less is better; else of rates
	accept, worldClass float64
}

// aims are the goals that a run can judge: with each write synced there is one, and embedded there is no loopback to pay for.
func (r *ThroughputResult) aims() []aim {
	if r.Settings.Sync == Always {
		return []aim{{10, CreateAsync, false, 5, 10}, {10, Naive, false, 6, 10}}
	}
	floor, raw := aim{3, Floor, false, 0.55, 0.75}, aim{4, RawLimits, false, 0.25, 0.33}
	if r.Settings.Mode == Embedded {
		floor.accept, floor.worldClass = 0.70, 0.90
		raw.accept, raw.worldClass = 0.36, 0.45
	}
	floorLimits, rawQueue := floor, raw
	floorLimits.to, rawQueue.to = FloorLimits, Raw
	return []aim{
		{1, Naive, false, 2.5, 3.0}, {2, Naive, true, 0.45, 0.36}, floorLimits, floor, raw, rawQueue,
		{5, CreateAsync, true, 1.20, 1.08},
	}
}

// judge compares the product with the goals, as far as their yardsticks were measured.
func (r *ThroughputResult) judge() {
	for _, a := range r.aims() {
		i := slices.IndexFunc(r.Ratios, func(x Ratio) bool { return x.Design == Guyline && x.To == a.to })
		if i < 0 {
			continue
		}
		g := Goal{Number: a.number, What: fmt.Sprintf("rate / %s", a.to), Reached: r.Ratios[i].Rate, Accept: a.accept, WorldClass: a.worldClass}
		if a.cpu {
			if r.Ratios[i].CPU == nil {
				continue
			}
			g.What, g.Reached, g.AtMost = fmt.Sprintf("CPU / %s", a.to), *r.Ratios[i].CPU, true
		}
		g.Verdict = g.Judge()
		r.Goals = append(r.Goals, g)
	}
}
