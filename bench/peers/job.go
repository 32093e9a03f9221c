package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// event is what a job is about: the product's wire format, about 220 bytes of JSON.
type event struct {
	SiteID    string         `json:"site_id"`
	SourceURI string         `json:"source_uri"`
	Due       time.Time      `json:"due,omitzero"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// answer is what the no-op handler of every system returns, and what every ledger stores.
const answer = `{"pages":12,"bytes":184213,"version":"1.7","title":"Annual inspection, mast and foundation","encrypted":false,"needs_ocr":false,` +
	`"text":"Anchor 3: corrosion, torque checked"}`

// decode reads an event as the peers do. The product has a stricter reader of its own.
func decode(body []byte) (event, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return event{}, fmt.Errorf("decode the event: %w", err)
	}
	return e, nil
}

// key is the event's idempotency key, as the product derives it.
func (e event) key() string {
	sum := sha256.Sum256([]byte(e.SiteID + ":" + e.SourceURI))
	return hex.EncodeToString(sum[:])
}

// backlog makes n events. Every fourth repeats one that came before it, chosen at random.
func backlog(n int, seed uint64) (events []event, unique int) {
	random := rand.New(rand.NewPCG(seed, 0))
	due := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		if i%4 == 3 {
			events = append(events, events[random.IntN(i)])
			continue
		}
		unique++
		events = append(events, event{
			SiteID: fmt.Sprintf("TWR-%04d", random.IntN(1000)), SourceURI: fmt.Sprintf("s3://reports/2026/q4/inspection-%d-%08d.pdf", seed, i), Due: due,
			Metadata: map[string]any{"firm": "Acme Rope Access", "crew": "north-2", "sheet": i, "note": "anchor 3 re-torqued, see photo"},
		})
	}
	return events, unique
}

// job is one backlog on its way through one system.
type job struct {
	Server  endpoint
	dir     string // for what the system writes besides
	events  []event
	unique  int
	meter   meter
	handled atomic.Int64
	again   atomic.Int64 // of them, those that the ledger knew
	all     chan struct{}
	failed  chan error
}

func newJob(t task) *job {
	j := &job{Server: t.Server, dir: t.Dir, meter: meter{servers: t.Server.Pid}, all: make(chan struct{}), failed: make(chan error, 1)}
	j.events, j.unique = backlog(t.N, t.Seed)
	return j
}

// body is event i as JSON.
func (j *job) body(i int) []byte {
	b, err := json.Marshal(j.events[i])
	if err != nil {
		panic(err) // strings, numbers and a time
	}
	return b
}

// settled counts one event that was handled; known says that the ledger had it already.
func (j *job) settled(known bool) {
	if known {
		j.again.Add(1)
	}
	if j.handled.Add(1) == int64(len(j.events)) {
		close(j.all)
	}
}

// fail ends the run: nothing may go wrong in a measurement.
func (j *job) fail(err error) error {
	select {
	case j.failed <- err:
	default:
	}
	return err
}

// error is what made the run fail so far.
func (j *job) error() error {
	select {
	case err := <-j.failed:
		return err
	default:
		return nil
	}
}

// finish waits until all events were handled and the server says, when asked every few milliseconds, that nothing is left.
func (j *job) finish(ctx context.Context, empty func() (bool, error)) error {
	select {
	case <-j.all:
	case err := <-j.failed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%d of %d were handled: %w", j.handled.Load(), len(j.events), ctx.Err())
	}
	for {
		if yes, err := empty(); err != nil || yes {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("all were handled, but the server has some left: %w", ctx.Err())
		}
	}
}

// check compares what was counted with what there was to do. stored is the number of entries in the ledger, negative without one.
func (j *job) check(stored int) error {
	want := len(j.events) - j.unique
	if stored < 0 {
		stored, want = j.unique, 0
	}
	if handled, again := int(j.handled.Load()), int(j.again.Load()); handled != len(j.events) || again != want || stored != j.unique {
		return fmt.Errorf("%d of %d handled, %d of %d duplicates recognised, %d of %d in the ledger", handled, len(j.events), again, want, stored, j.unique)
	}
	return nil
}
