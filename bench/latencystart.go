package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// WorkerCommand is the hidden command as which the program starts itself to be a worker: all that `guyline run` does, with a handler that does
// nothing in place of the inspection of files. It prints a [Step] when it gets to each.
const WorkerCommand = "bench-worker"

// Step is a line that a worker process prints. At is the wall clock, which both processes share.
type Step struct {
	Step string    `json:"step"`
	At   time.Time `json:"at"`
}

// The steps of a start.
const (
	StepMain  = "main"  // the command begins: the program is loaded and its packages are ready
	StepStore = "store" // the server runs, and streams, consumers and buckets are looked at
	StepReady = "ready" // the worker is open
	StepDone  = "done"  // a report is done and acknowledged
)

// measureStartup starts worker processes on a small store with one report in it, and times each until that report is done: with a handler that does
// nothing, and as `guyline run`, which inspects a small PDF. One start of each kind before is not measured: it makes the streams that are
// missing, and compiles the PDF engine if its cache is cold.
func measureStartup(ctx context.Context, cfg LatencyConfig, r *LatencyResult) (err error) {
	y, err := cfg.openYard(ctx, smallStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	for _, kind := range []struct {
		what, command string
		step          func(line []byte) (Step, bool)
	}{{"no-op handler", WorkerCommand, stepOf}, {"guyline run, small PDF", "run", stepOfLog}} {
		of := map[string][]float64{}
		for i := range cfg.Starts + 1 {
			file := fmt.Sprintf("%s-%d.pdf", kind.command, i)
			if err := os.WriteFile(filepath.Join(y.dir, file), smallPDF(), 0o600); err != nil {
				return err
			}
			if err := y.submit(ctx, file); err != nil {
				return err
			}
			err := y.run(ctx, func(_ int, started time.Time, line []byte) bool {
				s, ok := kind.step(line)
				if ok && i > 0 {
					of[s.Step] = append(of[s.Step], s.At.Sub(started).Seconds()*1000)
				}
				return ok && s.Step == StepDone
			}, kind.command)
			if err != nil {
				return err
			}
		}
		row := StartResult{What: kind.what, Done: spread(of[StepDone])}
		for _, step := range []string{StepMain, StepStore, StepReady} {
			if len(of[step]) > 0 {
				row.Steps = append(row.Steps, StartStep{step, spread(of[step])})
			}
		}
		r.Startup = append(r.Startup, row)
	}
	return nil
}

func stepOf(line []byte) (s Step, ok bool) {
	return s, json.Unmarshal(line, &s) == nil && s.Step != ""
}

// stepOfLog reads the log of `guyline run`.
func stepOfLog(line []byte) (Step, bool) {
	var l struct {
		Time time.Time
		Msg  string
	}
	if json.Unmarshal(line, &l) != nil {
		return Step{}, false
	}
	step, ok := map[string]string{"working": StepReady, "report_succeeded": StepDone}[l.Msg]
	return Step{step, l.Time}, ok
}

// smallPDF is a file of one page with one line of text.
func smallPDF() []byte {
	text := "BT /F1 24 Tf 72 700 Td (Guyline) Tj ET"
	var b []byte
	var at []int
	for i, object := range []string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(text), text), "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
	} {
		if i == 0 {
			b = append(b, "%PDF-1.4\n"...)
		}
		at = append(at, len(b))
		b = fmt.Appendf(b, "%d 0 obj%s\nendobj\n", i+1, object)
	}
	table := len(b)
	b = fmt.Appendf(b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		b = fmt.Appendf(b, "%010d 00000 n \n", offset)
	}
	return fmt.Appendf(b, "trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, table)
}
