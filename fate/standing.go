package fate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
)

// Standing is where one report of a list stands, in few words.
type Standing struct {
	Fate   Fate
	Parked bool      // of waiting
	Since  time.Time // when it was settled, died or was given up; zero for the other fates
	Due    time.Time // the deadline that was handed over with it, where a queue or a letter still knows it
	Class  report.Class
	Code   report.Code // of dead, as Class
	Reason string      // of dead and discarded; of unknown, why what is stored cannot be read
	Actor  string      // of discarded
}

// standing puts an answer in few words.
func standing(a Answer, err error) (Standing, error) {
	switch {
	case errors.Is(err, keyvalue.ErrUnreadable), errors.Is(err, audit.ErrUnreadable):
		return Standing{Fate: Unknown, Reason: err.Error()}, nil
	case err != nil:
		return Standing{}, err
	}
	switch s := (Standing{Fate: a.Fate, Parked: a.Parked}); a.Fate {
	case Done:
		s.Since = a.Entry.Time
		return s, nil
	case Waiting:
		if a.Message != nil {
			s.Due = a.Message.Event.Due
		}
		return s, nil
	case Dead:
		return dead(*a.Letter), nil
	case Discarded:
		return givenUp(*a.Discarded), nil
	default:
		return s, nil
	}
}

func dead(l dlq.Letter) Standing {
	return Standing{Fate: Dead, Since: l.FailedAt, Due: l.Due, Class: l.Class, Code: l.Code, Reason: report.Line(l.Reason, report.MaxReason)}
}

func givenUp(e audit.Event) Standing {
	return Standing{Fate: Discarded, Since: e.Time, Reason: report.Line(e.Reason, report.MaxReason), Actor: report.Line(e.Actor, report.MaxHeaderValue)}
}

// each runs look for every report, some at a time, and hands each answer to found, one at a time. The first error ends it.
func each(ctx context.Context, open []int, look func(int) (Standing, error), found func(n, i int, s Standing)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var (
		mu   sync.Mutex
		n    int
		done sync.WaitGroup
	)
	for range min(lookers, len(open)) {
		done.Go(func() {
			for i := range work {
				s, err := look(i)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				n++
				found(n, i, s)
				mu.Unlock()
			}
		})
	}
feed:
	for _, i := range open {
		select {
		case work <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	done.Wait()
	return context.Cause(ctx)
}
