package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/extract"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func (a *app) runCommand() *cobra.Command {
	var (
		drain bool
		list  string
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Work reports until stopped",
		Long: "Work reports until stopped. The first Ctrl-C lets running attempts finish (GUYLINE_STOP_GRACE), the second hands\n" +
			"them back at once; neither costs a report an attempt.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), list, drain) },
	}
	cmd.Flags().BoolVar(&drain, "drain", false, "stop when nothing is waiting or in work, or for GUYLINE_MAX_DELAY nothing but parked reports; exit 3 if this run dead-lettered any or leaves any parked")
	cmd.Flags().StringVar(&list, "publish", "", "publish this list first (a file, or - for standard input)")
	return cmd
}

func (a *app) run(ctx context.Context, list string, drain bool) error {
	// Ctrl-C in `guyline run 2>&1 | tee log` ends tee first: a log that nobody reads any more must not kill the worker before it has handed
	// its reports back. It is not ignored, as an extractor would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var pub publication
	if list != "" {
		var err error
		if pub, err = a.openList(ctx, list, false); err != nil {
			return err
		}
		defer pub.Close()
	}
	x, err := a.openExtractor(ctx, a.cfg.Extract()) // before a store is made: a wrong configuration starts nothing
	if err != nil {
		return err
	}
	defer x.Close()
	s, err := a.open(ctx, serves)
	if err != nil {
		return err
	}
	defer s.Close()
	t := newTally()
	if list != "" {
		sent, err := a.publish(ctx, s, pub)
		if err != nil {
			return err
		}
		t.published(sent)
		a.log.Info("published", "list", list, "accepted", sent.Accepted, "duplicate", sent.Duplicate, "already_done", sent.Done, "refused", sent.Refused)
		if sent.Refused > 0 {
			return fmt.Errorf("%d reports of %s were refused; nothing was worked", sent.Refused, list)
		}
	}
	if err := a.work(ctx, s, x.Extract, t, drain); err != nil {
		return err
	}
	if !drain {
		return nil
	}
	return a.printTally(t)
}

// openExtractor prepares what reads reports. An error names the variable that is wrong.
func (a *app) openExtractor(ctx context.Context, cfg extract.Config) (*extract.Extractor, error) {
	x, err := extract.Open(ctx, cfg, a.log)
	if wrong := a.cfg.Wrong(err); wrong != nil {
		return nil, usageError{wrong}
	}
	return x, err
}

// work runs a consumer until ctx ends or, with drain, until both queues are empty.
func (a *app) work(ctx context.Context, s *session, h consumer.Handler, t *tally, drain bool) error {
	cfg := a.cfg.Consumer(version)
	cfg.Observe = t.observe
	if _, set := os.LookupEnv("GOGC"); !set && (s.store == nil || s.store.Remote()) {
		debug.SetGCPercent(consumer.GCPercent)
	}
	cfg.SyncedStore = s.store != nil && a.cfg.Sync == "always"
	if s.store != nil && !s.store.Remote() {
		cfg.InFlight = filepath.Join(a.cfg.DataDir, "inflight")
	}
	if drain {
		cfg.ReplayEvery = 0 // or it would work for as long as there are letters
	}
	c, err := consumer.Open(ctx, s.js, h, cfg, a.log)
	if err != nil {
		return err
	}
	if s.store != nil {
		a.log.Info("working", "store", a.cfg.DataDir, "workers", a.cfg.Workers)
	} else {
		a.log.Info("working", "server", a.cfg.RedactAddress(s.nc.ConnectedUrl()), "workers", a.cfg.Workers)
	}
	working, finish := context.WithCancel(ctx)
	defer finish()
	var side sync.WaitGroup
	defer side.Wait()
	defer finish()
	side.Go(func() {
		select {
		case <-a.hurry:
			c.Cut()
		case <-working.Done():
			select {
			case <-a.hurry:
				c.Cut()
			case <-t.ended:
			}
		}
	})
	if drain {
		side.Go(func() { a.awaitEmpty(working, s, t, finish) })
	}
	defer context.AfterFunc(ctx, func() {
		a.log.Info("stopping: running attempts may finish; once more cuts them", "grace", a.cfg.StopGrace.String())
	})()
	err = c.Run(working)
	close(t.ended)
	a.flushLog() // before what is printed next
	if err == nil && drain && ctx.Err() != nil {
		err = errors.New("stopped before everything was worked; run it again to go on")
	}
	return err
}

// awaitEmpty calls finish when neither queue stores a report any more, or for GUYLINE_MAX_DELAY nothing but parked ones, each of which
// was tried again in that time or waits behind one that was. It shows progress meanwhile.
func (a *app) awaitEmpty(ctx context.Context, s *session, t *tally, finish func()) {
	bar := a.startProgress("working", 1)
	defer bar.end()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	busy := time.Now() // when there was more than parked reports
	for {
		left, parked, err := leftOver(ctx, s)
		settled := t.settled.Load()
		switch {
		case err != nil:
		case left == 0, left == parked && time.Since(busy) > a.cfg.MaxDelay:
			t.parked.Store(int64(parked))
			finish()
			return
		case left != parked:
			busy = time.Now()
		}
		bar.to(settled, settled+int64(left))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// leftOver is how many reports the two queues store, and how many of them are parked.
func leftOver(ctx context.Context, s *session) (left, parked uint64, err error) {
	for _, name := range stream.Names() {
		st, failed := s.queues.State(ctx, name)
		err = errors.Join(err, failed)
		left += st.Stored
		parked += st.Parked
	}
	return left, parked, err
}

// tally counts what a run has done.
type tally struct {
	started time.Time
	ended   chan struct{}
	settled atomic.Int64
	parked  atomic.Int64 // left when the run ended

	mu   sync.Mutex
	sent receipts
	of   map[consumer.Kind]int
	dead map[report.Code]int
}

func newTally() *tally {
	return &tally{started: time.Now(), ended: make(chan struct{}), of: map[consumer.Kind]int{}, dead: map[report.Code]int{}}
}

func (t *tally) published(r receipts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = r
}

func (t *tally) observe(o consumer.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[o.Kind]++
	switch o.Kind {
	case consumer.Buried:
		t.dead[o.Code]++
		t.settled.Add(1)
	case consumer.Succeeded, consumer.Duplicate:
		t.settled.Add(1)
	}
}

func (a *app) printTally(t *tally) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := struct {
		Done       int                 `json:"done"`
		Duplicates int                 `json:"duplicates"`
		Earlier    int64               `json:"done_before"`
		Dead       int                 `json:"dead_lettered"`
		ByCode     map[report.Code]int `json:"dead_by_code"`
		Parked     int64               `json:"parked"`
		Seconds    float64             `json:"seconds"`
	}{
		t.of[consumer.Succeeded], t.of[consumer.Duplicate] + int(t.sent.Duplicate), t.sent.Done, t.of[consumer.Buried], t.dead, t.parked.Load(),
		math.Round(time.Since(t.started).Seconds()*10) / 10,
	}
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		w := newTable(a.stdout)
		w.row("done", fmt.Sprint(out.Done))
		w.row("duplicates", fmt.Sprint(out.Duplicates))
		if out.Earlier > 0 {
			w.row("done before", fmt.Sprint(out.Earlier))
		}
		w.row("dead-lettered", fmt.Sprint(out.Dead))
		codes := make([]report.Code, 0, len(t.dead))
		for code := range t.dead {
			codes = append(codes, code)
		}
		slices.Sort(codes)
		for _, code := range codes {
			w.row("  "+string(code), fmt.Sprint(t.dead[code]))
		}
		if out.Parked > 0 {
			w.row("parked", fmt.Sprint(out.Parked))
		}
		w.row("seconds", fmt.Sprint(out.Seconds))
		if err := w.flush(); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
		next := newTable(a.stdout)
		if out.Dead > 0 {
			next.row("guyline dlq ls", "why they are dead")
			next.row("guyline dlq replay --all", "when the cause is repaired, send them back")
		}
		if out.Parked > 0 {
			next.row("guyline status", "which upstream is down")
			next.row("guyline run --drain", "later: goes on with the parked")
		}
		next.row("guyline results", "what the settled reports say")
		if err := next.flush(); err != nil {
			return err
		}
	}
	if out.Dead > 0 || out.Parked > 0 {
		return errPerson
	}
	return nil
}
