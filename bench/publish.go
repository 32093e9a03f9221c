package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// PublishConfig says how publishing a list is measured.
type PublishConfig struct {
	Place   Config
	Rows    int    // of the list, 1,000 to 5,000,000
	Known   int    // entries that the ledger has of other reports, at most 5,000,000
	Reps    int    // laps of each way, 1 to 100
	Lines   bool   // the list is JSON lines, not a CSV
	Version string // of the program
}

// Validate checks the settings.
func (c PublishConfig) Validate() error {
	switch {
	case c.Rows < 1000 || c.Rows > 5_000_000:
		return fmt.Errorf("the number of rows is %d, allowed is 1000 to 5000000", c.Rows)
	case c.Known < 0 || c.Known > 5_000_000:
		return fmt.Errorf("the number of known reports is %d, allowed is 0 to 5000000", c.Known)
	case c.Reps < 1 || c.Reps > 100:
		return fmt.Errorf("the number of repetitions is %d, allowed is 1 to 100", c.Reps)
	}
	return c.Place.Validate()
}

// PublishLap is one list, published.
type PublishLap struct {
	Repetition int `json:"repetition"`
	Usage
}

// PublishResult is what was measured. What is unknown is nil, and missing in JSON.
type PublishResult struct {
	Settings Settings     `json:"settings"`
	Rows     int          `json:"rows"`
	Known    int          `json:"known"`
	Lines    bool         `json:"lines"`
	Raw      []PublishLap `json:"raw"`
	Guyline  []PublishLap `json:"guyline"`
	Rate     Range        `json:"rate_ratio"` // of guyline to raw
	CPU      *Range       `json:"cpu_ratio,omitempty"`
}

// Lister publishes a list as the product's command does: it is read and checked, the ledger is asked, and the reports are
// published, all over the given connection. It returns how many the queue has accepted.
type Lister func(ctx context.Context, nc *nats.Conn, file string) (accepted int64, err error)

// Publish measures ours from the opening of the file on, against nats.go's PublishMsgAsync of the same messages, which are in memory
// then: 4,096 on their way at once, and nothing else to do. Each lap has a fresh store, and the two take turns at being first.
func Publish(ctx context.Context, cfg PublishConfig, ours Lister, log *slog.Logger) (_ *PublishResult, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	list, err := cfg.writeList()
	if err != nil {
		return nil, err
	}
	defer os.Remove(list)
	r := &PublishResult{Settings: newSettings(cfg.Version, cfg.Place, 0), Rows: cfg.Rows, Known: cfg.Known, Lines: cfg.Lines}
	r.Settings.Reps, r.Settings.LoadBefore = cfg.Reps, loadNow()
	used := map[string][]Usage{}
	for rep := 1; rep <= cfg.Reps; rep++ {
		for turn := range 2 {
			name, laps := "raw", &r.Raw
			run := func(ctx context.Context, nc *nats.Conn) (func() (int64, error), error) {
				messages, err := messagesOf(list)
				return func() (int64, error) { return publishAll(ctx, nc, slices.Values(messages)) }, err
			}
			if turn == rep%2 {
				name, laps = "guyline", &r.Guyline
				run = func(ctx context.Context, nc *nats.Conn) (func() (int64, error), error) {
					return func() (int64, error) { return ours(ctx, nc, list) }, nil
				}
			}
			usage, err := cfg.lap(ctx, &r.Settings, run)
			if err != nil {
				return nil, fmt.Errorf("%s, repetition %d: %w", name, rep, err)
			}
			*laps, used[name] = append(*laps, PublishLap{rep, usage}), append(used[name], usage)
			log.Info("measured", append([]any{"repetition", rep, "publisher", name}, usage.attrs()...)...)
		}
	}
	r.Rate, r.CPU = ratios(used["guyline"], used["raw"])
	r.Settings.LoadAfter = loadNow()
	return r, nil
}

// lap opens a place, has the way prepared, and measures it.
func (c PublishConfig) lap(ctx context.Context, s *Settings, prepare func(context.Context, *nats.Conn) (func() (int64, error), error)) (out Usage, err error) {
	place, err := openPlace(ctx, c.Place)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	nc, err := place.connect()
	if err != nil {
		return out, err
	}
	defer nc.Close()
	s.Server = nc.ConnectedServerVersion()
	js, err := jetstream.New(nc)
	if err != nil {
		return out, err
	}
	queues := c.Place.consumer(1, "").Queues
	queues.QueueBytes = 16 << 30
	mine, err := stake(ctx, js, queues)
	if err != nil {
		return out, err
	}
	if c.Place.Mode == Given { // else the store goes as a whole
		defer func() { err = errors.Join(err, mine.leave(context.WithoutCancel(ctx), uint64(c.Rows))) }()
	}
	if err := c.fill(ctx, nc); err != nil {
		return out, fmt.Errorf("fill the ledger: %w", err)
	}
	run, err := prepare(ctx, nc)
	if err != nil {
		return out, err
	}
	var accepted int64
	out, err = place.measure(c.Rows, func() error {
		accepted, err = run()
		return err
	})
	if err != nil {
		return out, err
	}
	queue, err := js.Stream(ctx, stream.Reports)
	if err == nil && (accepted != int64(c.Rows) || queue.CachedInfo().State.Msgs != uint64(c.Rows)) {
		err = fmt.Errorf("%d reports were accepted and %d are in %s, want %d", accepted, queue.CachedInfo().State.Msgs, stream.Reports, c.Rows)
	}
	return out, err
}

// writeList makes the list. Each row is another report.
func (c PublishConfig) writeList() (name string, err error) {
	f, err := os.CreateTemp("", "guyline-bench-list-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if !c.Lines {
		fmt.Fprintln(w, "site_id,source_uri,due,firm,inspector")
	}
	for i := range c.Rows {
		site, uri := fmt.Sprint("TWR-", 1000+i%5000), fmt.Sprintf("https://reports.example.com/2026/q2/%08d.pdf", i)
		if c.Lines {
			fmt.Fprintf(w, `{"site_id":%q,"source_uri":%q,"due":"2026-12-01T00:00:00Z","metadata":{"firm":"Acme Tower Services","inspector":"M. Okafor"}}`+"\n", site, uri)
		} else {
			fmt.Fprintf(w, "%s,%s,2026-12-01T00:00:00Z,Acme Tower Services,M. Okafor\n", site, uri)
		}
	}
	return f.Name(), w.Flush()
}

// messagesOf makes the messages that the rows of a list become.
func messagesOf(list string) (messages []*nats.Msg, err error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for row, err := range report.ReadList(f) {
		if err = errors.Join(err, row.Err); err != nil {
			return nil, err
		}
		messages = append(messages, &nats.Msg{
			Subject: submittedPrefix + string(report.NewToken(row.Event.SiteID)),
			Header:  nats.Header{jetstream.MsgIDHeader: {string(row.Event.Key())}}, Data: row.Body,
		})
	}
	return messages, nil
}

// fill gives the ledger entries of reports that are not in the list.
func (c PublishConfig) fill(ctx context.Context, nc *nats.Conn) error {
	messages := make([]*nats.Msg, 0, min(c.Known, 100_000))
	for i := range c.Known {
		ref := report.Event{SiteID: fmt.Sprint("TWR-", 1000+i%5000), SourceURI: fmt.Sprint("file:old/", i)}.Ref()
		messages = append(messages, &nats.Msg{
			Subject: ledgerSubject + string(ref.Site) + "." + string(ref.Key),
			Data: fmt.Appendf(nil, `{"state":"done","site_id":"TWR-%d","source_uri":"file:old/%d","attempts":1,"worker":"bench","commit":"REPORTS/%d/1",`+
				`"time":"2026-11-30T00:00:00Z"}`, 1000+i%5000, i, i),
		})
		if len(messages) == cap(messages) || i == c.Known-1 {
			if _, err := publishAll(ctx, nc, slices.Values(messages)); err != nil {
				return err
			}
			messages = messages[:0]
		}
	}
	return nil
}
