package extract

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/guyline/guyline/report"
)

// errLate says that an attempt's time was over when its file had been fetched, and of what the time was spent.
var errLate = errors.New("the file came, but the attempt's time was over before it was inspected")

// inTurn does an inspection, of which as many run at once as there are turns. An attempt whose deadline passes is [errLate], a time-out
// whose words do not blame the source. Any other end of ctx is plain.
func inTurn[T any](ctx context.Context, turns chan struct{}, inspect func() (T, error)) (T, error) {
	var none T
	arrived := time.Now()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return none, late(ctx, time.Since(arrived), 0)
	}
	began := time.Now()
	result, err := inspect()
	if err != nil && ctx.Err() != nil {
		return none, late(ctx, began.Sub(arrived), time.Since(began))
	}
	return result, err
}

// late judges the end of ctx.
func late(ctx context.Context, waited, inspected time.Duration) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	todo := "repair or replace the file, or give attempts more time"
	if waited >= inspected {
		todo = "let the worker take fewer reports at once, or give it more processors"
	}
	return report.Transient(report.CodeTimeout, fmt.Errorf("%w: %v of it were spent waiting for a turn and %v inspecting; %s",
		errLate, waited.Round(time.Second/10), inspected.Round(time.Second/10), todo))
}
