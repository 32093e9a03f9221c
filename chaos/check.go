package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/internal/books"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Finding is one thing that must not be.
type Finding struct {
	What Wrong      `json:"what"`
	Key  report.Key `json:"key,omitempty"`
	Text string     `json:"text"`
}

// Wrong is what kind of thing it is.
type Wrong string

const (
	Lost        Wrong = "lost"        // acknowledged, and nowhere
	Doubled     Wrong = "doubled"     // more than one fate, or recorded twice
	Unexplained Wrong = "unexplained" // another fate, result or reason than the intended one, or one that does not verify
	Stuck       Wrong = "stuck"       // still in a queue
	Leftover    Wrong = "leftover"    // a process or a file of the run
)

// inspection compares the books with the plan.
type inspection struct {
	plan   *Plan
	books  *books.Books
	acked  map[report.Key]bool
	runs   string // directory
	result *Result
}

func (n *inspection) find(what Wrong, key report.Key, format string, args ...any) {
	n.result.Findings = append(n.result.Findings, Finding{what, key, fmt.Sprintf(format, args...)})
}

// inspect reads the streams and writes down what it finds.
func inspect(ctx context.Context, js jetstream.JetStream, p *Plan, acked map[report.Key]bool, runs string, r *Result) error {
	b, err := books.Read(ctx, js)
	if err != nil {
		return err
	}
	n := &inspection{p, b, acked, runs, r}
	planned := map[report.Key]bool{}
	for _, rep := range p.Reports {
		planned[rep.Key] = true
		n.one(rep)
	}
	for key, where := range b.Strangers(planned) {
		n.find(Unexplained, key, "%s holds a report that was never published", where)
	}
	for key, problems := range b.Problems {
		for _, problem := range problems {
			n.find(Unexplained, key, "%s", problem)
		}
	}
	ledger, err := js.Stream(ctx, keyvalue.LedgerStream)
	if err != nil {
		return err
	}
	if s := ledger.CachedInfo().State; s.LastSeq != s.Msgs {
		n.find(Doubled, "", "the ledger took %d writes for %d entries", s.LastSeq, s.Msgs)
	}
	lost, all := n.burnt()
	r.expect(p, lost, all)
	return nil
}

// one judges one report.
func (n *inspection) one(rep Report) {
	f := n.books.Of(rep.Key)
	if n.acked[rep.Key] {
		n.result.Published++
	} else if f.Sum() == 0 {
		return // it was never taken
	}
	n.result.Fates[rep.Fate]++
	n.result.Done += f.Done
	n.result.Dead += f.Dead
	n.result.Waiting += f.Waiting
	n.result.Discarded += f.Discarded
	switch {
	case f.Sum() == 0:
		n.find(Lost, rep.Key, "%s: acknowledged, and nowhere; %s", rep.Fate, n.story(rep))
	case f.Sum() > 1:
		n.find(Doubled, rep.Key, "%s: %d done, %d waiting, %d dead, %d discarded; %s", rep.Fate, f.Done, f.Waiting, f.Dead, f.Discarded, n.story(rep))
	case f.Waiting == 1:
		n.find(Stuck, rep.Key, "%s: still in a queue; %s", rep.Fate, n.story(rep))
	case f.Done == 1:
		n.done(rep, n.books.Entries[rep.Key][0])
	case f.Dead == 1:
		n.dead(rep, n.books.Letters[rep.Key][0])
	default:
		n.find(Unexplained, rep.Key, "%s: discarded, and nobody did that", rep.Fate)
	}
}

// done judges the entry of a report that is done.
func (n *inspection) done(rep Report, e keyvalue.Entry) {
	var got result
	err := json.Unmarshal(e.Result, &got)
	switch {
	case rep.At == 0:
		n.find(Unexplained, rep.Key, "%s: done, with the result %.100s; %s", rep.Fate, e.Result, n.story(rep))
	case err != nil || got.Answer != answer(rep.Key) || got.Run < rep.At:
		n.find(Unexplained, rep.Key, "%s: the result %.100s is not the right one; %s", rep.Fate, e.Result, n.story(rep))
	case e.Attempts < 1 || e.Attempts > n.plan.Config.consumer().Queues.MaxAttempts:
		n.find(Unexplained, rep.Key, "%s: done at attempt %d; %s", rep.Fate, e.Attempts, n.story(rep))
	case got.Worker != e.Worker:
		n.find(Doubled, rep.Key, "%s: %s committed the result of %s; %s", rep.Fate, e.Worker, got.Worker, n.story(rep))
	case e.Replaces != 0:
		n.find(Doubled, rep.Key, "%s: recorded again: the entry took the place of revision %d; %s", rep.Fate, e.Replaces, n.story(rep))
	case len(n.books.Deaths[rep.Key]) > 0 && !n.books.Closed[rep.Key]:
		n.find(Unexplained, rep.Key, "%s: done and died, and nothing says how that ended; %s", rep.Fate, n.story(rep))
	}
	for _, began := range runsOf(n.runs, rep.Key) {
		if began.After(e.Time) {
			n.result.Reruns++
		}
	}
}

// dead judges the letter of a report that is dead.
func (n *inspection) dead(rep Report, l dlq.Letter) {
	runs := len(runsOf(n.runs, rep.Key))
	verdict := func(class report.Class, code report.Code, says string) bool {
		return l.Class == class && l.Code == code && strings.Contains(l.Reason, says)
	}
	abandoned := verdict(report.ClassAbandoned, report.CodeAbandoned, "")
	intended := abandoned // its deliveries were lost with workers or servers
	switch rep.Fate {
	case Undecodable:
		intended = verdict(report.ClassPoison, report.CodeUndecodable, "undecodable event")
	case Killer:
		n.result.KillerRuns = max(n.result.KillerRuns, runs)
	case Poison:
		intended = intended || verdict(report.ClassPoison, report.CodeMalformedPDF, unparseable(rep.URI))
	case Never:
		intended = intended || verdict(report.ClassExhausted, failing, neverSucceeds)
	case Succeed, Duplicated: // or so many of them that the run that succeeds did not come
		intended = intended || runs < rep.At && verdict(report.ClassExhausted, failing, succeedsAt(rep.At))
		n.result.Innocent++
	}
	if abandoned {
		n.result.Abandoned++
	}
	switch {
	case !intended:
		n.find(Unexplained, rep.Key, "%s: dead as %s %s, which is not what it was meant for; %s", rep.Fate, l.Class, l.Code, n.story(rep))
	case n.recorded(rep) == 0:
		n.find(Unexplained, rep.Key, "%s: the trail has recorded no death with the payload that was published; %s", rep.Fate, n.story(rep))
	case !bytes.Equal(l.Body, rep.Body):
		n.find(Unexplained, rep.Key, "%s: the letter's payload is not what was published", rep.Fate)
	}
}

// recorded is how many deaths of a report's own payload the trail has.
func (n *inspection) recorded(rep Report) (deaths int) {
	for _, e := range n.books.Deaths[rep.Key] {
		if e.Payload == report.PayloadHash(rep.Body) {
			deaths++
		}
	}
	return deaths
}

// burnt is how many deliveries the reports that were to succeed and did have had, and how many of them ended without a verdict.
func (n *inspection) burnt() (lost, all int) {
	for _, rep := range n.plan.Reports {
		if rep.Fate != Succeed {
			continue
		}
		for _, e := range n.books.Entries[rep.Key] {
			lost += max(0, e.Attempts-rep.At)
			all += e.Attempts
		}
	}
	return lost, all
}

// story is what is known of a report, for whoever looks for the cause.
func (n *inspection) story(rep Report) string {
	told := []string{fmt.Sprintf("runs at %s", clock(runsOf(n.runs, rep.Key)...))}
	for _, e := range n.books.Entries[rep.Key] {
		told = append(told, fmt.Sprintf("done at %s by %s, attempt %d, %s", clock(e.Time), e.Worker, e.Attempts, e.Commit))
	}
	for _, l := range n.books.Letters[rep.Key] {
		told = append(told, fmt.Sprintf("letter %d of %s/%d at %s by %s, attempts %d: %s",
			l.Sequence, l.Source.Stream, l.Source.Sequence, clock(l.FailedAt), l.Worker, l.Attempts, l.Reason))
	}
	for _, e := range n.books.Deaths[rep.Key] {
		told = append(told, fmt.Sprintf("death %s at %s by %s", e.ID(), clock(e.Time), e.Worker))
	}
	return strings.Join(told, "; ")
}

func clock(times ...time.Time) string {
	var s []string
	for _, t := range times {
		s = append(s, t.UTC().Format("15:04:05.000"))
	}
	return fmt.Sprint(s)
}

// left is how many reports the queues still hold, waiting, in work or forgotten.
func left(ctx context.Context, js jetstream.JetStream) (n int, err error) {
	for _, name := range stream.Names() {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return 0, err
		}
		c, err := s.Consumer(ctx, stream.Consumer)
		if err != nil {
			return 0, err
		}
		n += max(int(s.CachedInfo().State.Msgs), int(c.CachedInfo().NumPending)+c.CachedInfo().NumAckPending)
	}
	return n, nil
}
