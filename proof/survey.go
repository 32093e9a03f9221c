package proof

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/jsapi"
)

// survey is one reading of everything, in an order in which nothing in motion looks wrong: the checkpoints, then the ledger, then
// the trail, which explains what the ledger has reopened, then what the ledger's scan missed, then the letters.
type survey struct {
	log    *Log
	report Report

	notes []stored
	file  *stored
	book  book

	origin   string
	last     uint64              // sequence of the newest event when reading began
	now      time.Time           // of the server, then
	tree     tree                // of all events; after a gap it fits nothing
	roots    map[int64]tlog.Hash // at the sizes that checkpoints have
	signed   map[int64]tlog.Hash // roots that the stream's checkpoints say
	ripe     int64               // how many events were old enough
	ripeRoot tlog.Hash
	keep     bool               // the leaves are wanted
	first    int64              // index of the first of leaves
	leaves   []tlog.Hash        // since the newest checkpoint that fits
	deaths   map[tlog.Hash]bool // by [deathOf], each with its payload and without: then it says whether one has not told its payload
	dead     dlq.Deaths
	restarts []audit.Event
}

func newSurvey(l *Log) *survey {
	s := &survey{log: l, roots: map[int64]tlog.Hash{}, signed: map[int64]tlog.Hash{}, deaths: map[tlog.Hash]bool{}}
	s.report.Findings = []Finding{}
	return s
}

// read reads all but the letters. A checkpoint that was kept elsewhere is read with those of the stream. What is younger than age
// does not count as ripe. With keep, the record hashes since the newest checkpoint are kept.
func (l *Log) read(ctx context.Context, file []byte, age time.Duration, keep bool) (s *survey, err error) {
	s = newSurvey(l)
	s.keep = keep
	if s.notes, err = l.notes(ctx); err != nil {
		return nil, err
	}
	if file != nil {
		s.file = &stored{note: file}
	}
	stream, err := l.js.Stream(ctx, audit.Stream)
	if err != nil {
		return nil, fmt.Errorf("audit trail: %w", err)
	}
	var ripe time.Time
	if age > 0 {
		ripe = stream.CachedInfo().TimeStamp.Add(-age)
	}
	if err := s.readLedger(ctx, ripe); err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit trail: %w", err)
	}
	s.origin, s.last, s.now = originOf(info.Created), info.State.LastSeq, info.TimeStamp
	if err := s.readTrail(ctx, ripe); err != nil {
		return nil, err
	}
	if err := s.readVanished(ctx); err != nil {
		return nil, err
	}
	s.book.close()
	s.report.Origin, s.report.Events, s.report.Root, s.report.Time = s.origin, s.tree.size, s.tree.root(), s.now
	s.report.Results, _ = s.book.at(s.book.last)
	return s, nil
}

// readTrail makes the tree and checks each event on its own and against the ones before it.
func (s *survey) readTrail(ctx context.Context, ripe time.Time) error {
	for _, n := range s.all() {
		if c, _, err := Open(n.note, nil); err == nil {
			s.roots[c.Events] = tlog.Hash{}
			if n.sequence > 0 {
				s.signed[c.Events] = c.Root
			}
		}
	}
	next, young := uint64(1), false
	for m, err := range jsapi.Scan(ctx, s.log.js, audit.Stream, "reports.audit.>", false) {
		if err != nil {
			return fmt.Errorf("audit trail: %w", err)
		}
		if m.Sequence > s.last {
			break
		}
		s.gap(next, m.Sequence)
		s.root()
		if !young && !ripe.IsZero() && m.Time.After(ripe) {
			young = true
			s.ripe, s.ripeRoot = s.tree.size, s.tree.root()
		}
		s.add(m)
		s.check(m)
		next = m.Sequence + 1
	}
	s.gap(next, s.last+1)
	s.root()
	if !young {
		s.ripe, s.ripeRoot = s.tree.size, s.tree.root()
	}
	return nil
}

func (s *survey) add(m *jetstream.RawStreamMsg) {
	leaf := eventLeaf(m.Sequence, m.Subject, m.Data)
	s.tree.add(leaf)
	if s.keep {
		s.leaves = append(s.leaves, leaf)
	}
}

// root notes the root of the tree if a checkpoint has its size. If it fits, the leaves so far are stored already.
func (s *survey) root() {
	if _, wanted := s.roots[s.tree.size]; !wanted {
		return
	}
	root := s.tree.root()
	s.roots[s.tree.size] = root
	if said, ok := s.signed[s.tree.size]; ok && said == root {
		s.first, s.leaves = s.tree.size, nil
	}
}

// gap finds that events are missing from one sequence up to another.
func (s *survey) gap(from, to uint64) {
	switch {
	case from+1 == to:
		s.found(Finding{What: InTrail, Sequence: from, Problem: "the event is missing"})
	case from < to:
		s.found(Finding{What: InTrail, Sequence: from, Problem: fmt.Sprintf("the events %d to %d are missing", from, to-1)})
	}
}

// all is the notes of the stream and the one of the file, which comes last.
func (s *survey) all() []stored {
	if s.file == nil {
		return s.notes
	}
	return append(s.notes[:len(s.notes):len(s.notes)], *s.file)
}
