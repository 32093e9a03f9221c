package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"
	"testing"

	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

var errRow = errors.New("a bad row")

// list yields n rows of which each pair is one report, every seventh has an error, and every fifth report is settled.
func list(n int) iter.Seq[report.Row] {
	return func(yield func(report.Row) bool) {
		for i := range n {
			row := report.Row{Line: i}
			if i%7 == 0 {
				row.Err = errRow
			} else {
				row.Event, row.Body = event(fmt.Sprint(i / 2))
			}
			if !yield(row) {
				return
			}
		}
	}
}

func everyFifth(_ context.Context, refs []report.Ref) map[report.Key]bool {
	asked := map[report.Key]bool{}
	for _, r := range refs {
		asked[r.Key] = true
	}
	settled := map[report.Key]bool{}
	for i := 0; i < 12000; i += 5 {
		if e, _ := event(fmt.Sprint(i)); asked[e.Key()] {
			settled[e.Key()] = true
		}
	}
	return settled
}

func TestPublishAllKeepsOrder(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	const n = 12000
	line, seen := 0, map[string]bool{}
	for r := range stream.PublishAll(t.Context(), js, list(n), everyFifth) {
		uri := r.Row.Event.SourceURI
		bad, settled := line%7 == 0, line/2%5 == 0
		switch {
		case r.Row.Line != line:
			t.Fatalf("receipt %d is about line %d", line, r.Row.Line)
		case errors.Is(r.Err, errRow) != bad, bad && (r.Settled || r.Duplicate), !bad && r.Settled != settled, !bad && settled && r.Duplicate,
			!bad && !settled && (r.Err != nil || r.Duplicate != seen[uri]):
			t.Fatalf("receipt of line %d: %+v", line, r)
		}
		if !bad && !settled {
			seen[uri] = true
		}
		line++
	}
	if st, err := stream.New(js, config()).State(t.Context(), stream.Reports); err != nil || line != n || st.Stored != uint64(len(seen)) {
		t.Errorf("%d receipts, %d reports, state %+v, %v", line, len(seen), st, err)
	}
}

// What is read and not yet answered is bounded, however long the list: that is what holds memory flat. A loop that breaks leaves nothing
// running behind.
func TestPublishAllReadsAheadOfItselfALittle(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	var read, asked, running atomic.Int64
	endless := func(yield func(report.Row) bool) {
		running.Add(1)
		defer running.Add(-1)
		for row := range list(math.MaxInt) {
			if read.Add(1); !yield(row) {
				return
			}
		}
	}
	settled := func(_ context.Context, refs []report.Ref) map[report.Key]bool {
		asked.Add(int64(len(refs)))
		return nil
	}
	receipts, most := int64(0), int64(0)
	for r := range stream.PublishAll(t.Context(), js, endless, settled) {
		if r.Err != nil && !errors.Is(r.Err, errRow) {
			t.Fatal(r.Err)
		}
		receipts++
		if most = max(most, read.Load()-receipts); receipts == 30000 {
			break
		}
	}
	if n := running.Load(); n != 0 {
		t.Errorf("after the loop %d goroutines read", n)
	}
	if was := asked.Load(); was == 0 || was > read.Load() {
		t.Errorf("asked about %d of %d", was, read.Load())
	}
	if most < 500 || most > 7000 {
		t.Errorf("%d rows were held at once", most)
	}
}

// A list that is published while the server restarts is stored, each report once.
func TestPublishAllAcrossARestart(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := stream.Setup(t.Context(), js, config()); err != nil {
		t.Fatal(err)
	}
	const n = 21000
	line := 0
	for r := range stream.PublishAll(t.Context(), js, list(n), nil) {
		if r.Row.Line != line || r.Err != nil && !errors.Is(r.Err, errRow) {
			t.Fatalf("receipt %d: line %d, %v", line, r.Row.Line, r.Err)
		}
		if line++; line == 5001 {
			srv.Restart(t)
		}
	}
	want := map[string]bool{}
	for row := range list(n) {
		if row.Err == nil {
			want[row.Event.SourceURI] = true
		}
	}
	if st, err := stream.New(js, config()).State(t.Context(), stream.Reports); err != nil || line != n || st.Stored != uint64(len(want)) {
		t.Errorf("%d receipts, state %+v, %v; want %d stored", line, st, err, len(want))
	}
}

func TestPublishAllStopped(t *testing.T) {
	t.Parallel()
	js := setUp(t, config())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	line := 0
	for r := range stream.PublishAll(ctx, js, list(math.MaxInt), nil) {
		if r.Row.Line != line || r.Err != nil && !errors.Is(r.Err, errRow) && (line < 5000 || !errors.Is(r.Err, context.Canceled)) {
			t.Fatalf("receipt %d: line %d, %v", line, r.Row.Line, r.Err)
		}
		if line++; line == 5000 {
			cancel()
		}
	}
	if line < 5000 || line > 11000 {
		t.Errorf("%d receipts", line)
	}
}

func TestPublishAllWithoutAQueue(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	lines := 0
	for r := range stream.PublishAll(t.Context(), js, list(3), nil) {
		if lines++; r.Row.Err == nil && !errors.Is(r.Err, stream.ErrNoQueue) {
			t.Errorf("line %d: got %v, want ErrNoQueue", r.Row.Line, r.Err)
		}
	}
	if lines != 3 {
		t.Errorf("%d receipts", lines)
	}
}
