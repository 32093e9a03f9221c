package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

func (a *app) publishCommand() *cobra.Command {
	var (
		site, uri, due string
		skipBad        bool
	)
	cmd := &cobra.Command{
		Use:   "publish {FILE|- | --site S --uri U [--due T]}",
		Short: "Hand reports over to the queue",
		Long: "Hand reports over to the queue: one by flags, or a list: CSV with the columns site_id and source_uri (due, sha256 and\n" +
			"others if you like), or JSON lines. A row is one line. All rows are checked before the first is sent.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var list publication
			switch {
			case len(args) == 1 && site+uri+due == "":
				opened, err := a.openList(ctx, args[0], skipBad)
				if err != nil {
					return err
				}
				defer opened.Close()
				list = opened
			case len(args) == 0 && site != "" && uri != "":
				row, err := singleRow(site, uri, due)
				if err != nil {
					return usageError{err}
				}
				list = publication{total: 1, rows: func(yield func(report.Row) bool) { yield(row) }}
			default:
				return usageError{errors.New("give either a FILE (- is standard input), or --site and --uri")}
			}
			s, err := a.open(ctx, writes)
			if err != nil {
				return err
			}
			defer s.Close()
			sent, err := a.publish(ctx, s, list)
			if err != nil {
				return err
			}
			return a.printReceipts(sent)
		},
	}
	cmd.Flags().StringVar(&site, "site", "", "site_id of one report")
	cmd.Flags().StringVar(&uri, "uri", "", "source_uri of one report")
	cmd.Flags().StringVar(&due, "due", "", "its deadline: an RFC 3339 time, or a date")
	cmd.Flags().BoolVar(&skipBad, "skip-bad", false, "publish the good rows of a list that has bad ones")
	return cmd
}

func singleRow(site, uri, due string) (report.Row, error) {
	e := report.Event{SiteID: site, SourceURI: uri}
	if due != "" {
		t, err := report.ParseDue(due)
		if err != nil {
			return report.Row{}, err
		}
		e.Due = t
	}
	if err := e.Validate(); err != nil {
		return report.Row{}, err
	}
	body, err := json.Marshal(e)
	return report.Row{Line: 1, Event: e, Body: body}, err
}

// publication is a list that has been checked and can be read again.
type publication struct {
	file  *os.File
	spool bool // the file is ours
	total int64
	rows  iter.Seq[report.Row]
	bad   int64 // rows that will be skipped
}

func (p publication) Close() {
	if p.file != nil {
		p.file.Close()
		if p.spool {
			os.Remove(p.file.Name())
		}
	}
}

var errInterrupted = errors.New("interrupted while the list was read; nothing was done")

// openList checks every row of a file. Standard input, or a pipe that has a name, is spooled to a temporary file first, so that it can be
// read twice.
func (a *app) openList(ctx context.Context, name string, skipBad bool) (_ publication, err error) {
	var p publication
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	var once io.Reader
	if name == "-" {
		name, once = "standard input", a.stdin
	} else if p.file, err = os.Open(name); err == nil {
		if info, failed := p.file.Stat(); failed == nil && info.Mode()&os.ModeNamedPipe != 0 {
			defer p.file.Close()
			once = p.file
		}
	}
	if once != nil {
		if p.file, err = os.CreateTemp("", "guyline-list-"); err == nil {
			p.spool = true
			_, err = io.Copy(p.file, interruptible(ctx, once))
		}
	}
	switch {
	case ctx.Err() != nil:
		return p, errInterrupted
	case err != nil:
		return p, usageError{fmt.Errorf("read the list: %w", err)}
	}
	const shown = 10
	for row, err := range p.read() {
		switch {
		case err != nil:
			return p, usageError{fmt.Errorf("read the list %s: %w", name, err)}
		case ctx.Err() != nil:
			return p, errInterrupted
		case row.Err != nil:
			if p.bad++; p.bad <= shown {
				a.say("%s: %v", name, row.Err)
			}
		default:
			p.total++
		}
	}
	if p.bad > shown {
		a.say("%s: ... and %d more", name, p.bad-shown)
	}
	switch {
	case p.bad > 0 && !skipBad:
		return p, usageError{fmt.Errorf("%d of %d rows in %s are wrong and nothing was published: repair them, or publish the others with --skip-bad",
			p.bad, p.bad+p.total, name)}
	case p.total == 0:
		return p, usageError{fmt.Errorf("there is no report in %s", name)}
	}
	p.rows = func(yield func(report.Row) bool) {
		for row, err := range p.read() {
			if err != nil {
				row.Err = fmt.Errorf("read the list again: %w", err)
			}
			if err == nil && row.Err != nil { // skipped, as it said
				continue
			}
			if !yield(row) {
				return
			}
		}
	}
	return p, nil
}

func (p publication) read() iter.Seq2[report.Row, error] {
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return func(yield func(report.Row, error) bool) { yield(report.Row{}, err) }
	}
	return report.ReadList(p.file)
}

// receipts counts what the queue said.
type receipts struct {
	Accepted  int64 `json:"accepted"`
	Duplicate int64 `json:"duplicate"`
	Done      int64 `json:"already_done"`
	Refused   int64 `json:"refused"`
	Skipped   int64 `json:"skipped"`
}

// publish sends a list. A report that the ledger has settled is not sent. It stops when the queue takes nothing more or does
// not answer: only a report that is too large concerns itself alone.
func (a *app) publish(ctx context.Context, s *session, list publication) (r receipts, err error) {
	r.Skipped = list.bad
	bar := a.startProgress("publishing", list.total)
	defer bar.end()
	for receipt := range stream.PublishAll(ctx, s.js, list.rows, s.settled()) {
		switch {
		case receipt.Err != nil && ctx.Err() != nil: // it was on its way, and may have arrived
			continue
		case receipt.Settled:
			r.Done++
		case receipt.Err == nil && receipt.Duplicate:
			r.Duplicate++
		case receipt.Err == nil:
			r.Accepted++
		default:
			if r.Refused++; r.Refused <= 10 {
				a.say("line %d: %v", receipt.Row.Line, receipt.Err)
			}
		}
		bar.to(r.Accepted+r.Duplicate+r.Done+r.Refused, 0)
		if receipt.Err != nil && receipt.Row.Err == nil && !errors.Is(receipt.Err, stream.ErrTooLarge) {
			return r, fmt.Errorf("stopped at line %d after %d accepted: %w", receipt.Row.Line, r.Accepted, a.hintDisk(s, receipt.Err))
		}
	}
	if ctx.Err() != nil {
		return r, fmt.Errorf("interrupted after %d accepted; publish the list again, what the queue has is recognised", r.Accepted)
	}
	return r, nil
}

// settled finds which reports the ledger has settled, and looks for none while the ledger is empty. A ledger that does not answer settles
// none: a report that is sent all the same is recognised by whoever works it.
func (s *session) settled() stream.Settled {
	var used atomic.Bool
	return func(ctx context.Context, refs []report.Ref) map[report.Key]bool {
		if !used.Load() {
			if n, err := s.ledger.Len(ctx); n == 0 && err == nil {
				return nil
			}
			used.Store(true)
		}
		entries, err := s.ledger.LookupMany(ctx, refs)
		if err != nil {
			return nil
		}
		done := make(map[report.Key]bool, len(entries))
		for key, e := range entries {
			done[key] = e.State == keyvalue.Done
		}
		return done
	}
}

// hintDisk adds what a store in this process most likely suffers from if it does not answer.
func (a *app) hintDisk(s *session, err error) error {
	silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
	if !silent || s.store == nil || s.store.Remote() {
		return err
	}
	return fmt.Errorf("%w: is the disk of %s full?", err, a.cfg.DataDir)
}

func (a *app) printReceipts(r receipts) error {
	var err error
	if a.json {
		err = a.printJSON(r)
	} else {
		t := newTable(a.stdout)
		t.row("accepted", fmt.Sprint(r.Accepted))
		t.row("duplicate", fmt.Sprint(r.Duplicate))
		t.row("already done", fmt.Sprint(r.Done))
		t.row("refused", fmt.Sprint(r.Refused))
		if r.Skipped > 0 {
			t.row("bad rows skipped", fmt.Sprint(r.Skipped))
		}
		err = t.flush()
	}
	if err == nil && r.Refused > 0 {
		err = fmt.Errorf("%d reports were refused", r.Refused)
	}
	return err
}
