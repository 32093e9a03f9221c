package consumer

import (
	"context"
	"errors"

	"github.com/guyline/guyline/report"
)

// What one run of the handler can do.

var errSlowDown = errors.New("slow down")

func succeed(context.Context) (report.Result, error) { return report.Result(`{"pages":12}`), nil }

func poison(context.Context) (report.Result, error) {
	return nil, report.Poison(report.CodeMalformedPDF, errors.New("no trailer"))
}

func fail(context.Context) (report.Result, error) {
	return nil, report.Transient(report.CodeServerError, errors.New("503"))
}

// untilCut works until its context ends, which must be long before its time is over, and returns an error of its own kind then.
func untilCut(ctx context.Context) (report.Result, error) {
	<-ctx.Done()
	return nil, report.Poison(report.CodeCrashed, ctx.Err())
}

// times repeats a run.
func times(n int, r run) (runs []run) {
	for range n {
		runs = append(runs, r)
	}
	return runs
}
