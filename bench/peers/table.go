package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// sample is one row in one repetition.
type sample struct {
	Row        string  `json:"row"`
	Rep        int     `json:"repetition"`
	Jobs       int     `json:"jobs"`
	Duplicates int     `json:"duplicates"` // that the ledger recognised
	Seconds    float64 `json:"seconds"`
	ClientCPU  float64 `json:"client_cpu_seconds"`
	ServerCPU  float64 `json:"server_cpu_seconds"`
	ClientRSS  int64   `json:"client_rss_bytes"`
	ServerRSS  int64   `json:"server_rss_bytes"`
	Load       float64 `json:"load_before"` // average of a minute
}

func (s sample) rate() float64 { return float64(s.Jobs) / s.Seconds }

// cpu is seconds of CPU time, of client and servers, for 100,000 jobs.
func (s sample) cpu() float64 { return (s.ClientCPU + s.ServerCPU) * 1e5 / float64(s.Jobs) }

// spread is the median of some numbers and their range.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(numbers []float64) spread {
	if len(numbers) == 0 {
		return spread{}
	}
	n := slices.Sorted(slices.Values(numbers))
	half := len(n) / 2
	median := n[half]
	if len(n)%2 == 0 {
		median = (n[half-1] + n[half]) / 2
	}
	return spread{median, n[0], n[len(n)-1]}
}

// text is "6.1 [4.2-11.6]" with a format for each number.
func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ["+format+"-"+format+"]", s.Median, s.Min, s.Max)
}

// line is one row's samples, summarised.
type line struct {
	Row    string `json:"row"`
	Note   string `json:"note"`
	Reps   int    `json:"repetitions"`
	Rate   spread `json:"jobs_per_second"`
	CPU    spread `json:"cpu_s_per_100k"`
	Client spread `json:"client_rss_bytes"`
	Server spread `json:"server_rss_bytes"`
	// Base divided by this row, in the same repetition; nil unless both were measured.
	Base     string  `json:"base"`
	OursRate *spread `json:"ours_rate_ratio,omitempty"`
	OursCPU  *spread `json:"ours_cpu_ratio,omitempty"`
}

// summarise makes the lines of the rows that have samples, in their order.
func summarise(rows []row, samples []sample) (lines []line) {
	type place struct {
		row string
		rep int
	}
	at := map[place]sample{}
	for _, s := range samples {
		at[place{s.Row, s.Rep}] = s
	}
	for _, r := range rows {
		var rate, cpu, client, server, rateRatio, cpuRatio []float64
		for _, s := range samples {
			if s.Row != r.name {
				continue
			}
			rate, cpu = append(rate, s.rate()), append(cpu, s.cpu())
			client, server = append(client, float64(s.ClientRSS)), append(server, float64(s.ServerRSS))
			if b, ok := at[place{r.base, s.Rep}]; ok && r.name != r.base {
				rateRatio, cpuRatio = append(rateRatio, b.rate()/s.rate()), append(cpuRatio, b.cpu()/s.cpu())
			}
		}
		if len(rate) == 0 {
			continue
		}
		l := line{Row: r.name, Note: r.note, Base: r.base, Reps: len(rate), Rate: spreadOf(rate), CPU: spreadOf(cpu),
			Client: spreadOf(client), Server: spreadOf(server)}
		if len(rateRatio) > 0 {
			l.OursRate, l.OursCPU = new(spreadOf(rateRatio)), new(spreadOf(cpuRatio))
		}
		lines = append(lines, l)
	}
	return lines
}

// loads is how busy the machine was, by the samples.
func loads(samples []sample) spread {
	var all []float64
	for _, s := range samples {
		all = append(all, s.Load)
	}
	return spreadOf(all)
}

// printTable writes the table.
func printTable(out io.Writer, lines []line) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tjobs/s\tCPU s/100k\tMiB server+client\tours/it: rate\tours/it: CPU\tconfiguration")
	for _, l := range lines {
		rate, cpu := "", ""
		if l.OursRate != nil {
			rate, cpu = l.OursRate.text("%.1f"), l.OursCPU.text("%.2f")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f+%.0f\t%s\t%s\t%s\n",
			l.Row, l.Rate.text("%.0f"), l.CPU.text("%.1f"), l.Server.Median/(1<<20), l.Client.Median/(1<<20), rate, cpu, l.Note)
	}
	return w.Flush()
}
