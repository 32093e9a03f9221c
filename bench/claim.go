package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/stream"
)

// Streams of the bench itself, and of the product, as far as it knows them by name.
const (
	lockStream   = "GUYLINE_BENCH"        // exists while a bench uses a server
	limitsStream = "GUYLINE_BENCH_LIMITS" // as REPORTS, but it keeps what is acknowledged

	limitsPrefix = "guyline-bench.submitted."

	ledgerStream  = keyvalue.LedgerStream // where a commit goes, in each design the same
	ledgerBucket  = "reports_ledger"
	ledgerSubject = "$KV." + ledgerBucket + "." // and site and key

	sitesStream = "KV_reports_sites" // to which no bench writes
)

// claim is the product's streams on a server, made for one lap and nobody else.
type claim struct {
	js   jetstream.JetStream
	made map[string]time.Time // when each stream was created
}

// stake makes the product's streams on a server that has none of them. A stream that exists may hold somebody's reports, or workers may
// wait for it: nothing is touched then.
func stake(ctx context.Context, js jetstream.JetStream, cfg stream.Config) (_ *claim, err error) {
	for _, name := range append(consumer.Streams(), lockStream, limitsStream) {
		switch _, err := js.Stream(ctx, name); {
		case err == nil:
			return nil, fmt.Errorf("stream %s exists: a bench deletes what it works on, so it needs a server or an account where Guyline is not set up "+
				"and no other bench runs; nothing was touched", name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("look for stream %s: %w", name, err)
		}
	}
	lock := jetstream.StreamConfig{Name: lockStream, Metadata: map[string]string{"holder": randomToken()}} // so that no two are the same
	whole := context.WithoutCancel(ctx)                                                                    // a stop between making it and knowing that would leave it behind
	if _, err := js.CreateStream(whole, lock); err != nil {
		return nil, fmt.Errorf("create stream %s: %w", lockStream, err)
	}
	c := &claim{js, map[string]time.Time{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.leave(whole, 0))
		}
	}()
	if err := c.note(whole, lockStream); err != nil {
		return nil, err
	}
	err = errors.Join(consumer.Setup(ctx, js, cfg), setupLimits(ctx, js, cfg))
	if err = errors.Join(err, c.note(whole, append(consumer.Streams(), limitsStream)...)); err != nil {
		return nil, err
	}
	return c, nil
}

// setupLimits makes the queue that the reference's ceiling was measured on.
func setupLimits(ctx context.Context, js jetstream.JetStream, cfg stream.Config) error {
	s := cfg.Streams()[0]
	s.Name, s.Subjects, s.Retention, s.Description = limitsStream, []string{limitsPrefix + ">"}, jetstream.LimitsPolicy, ""
	if _, err := js.CreateStream(ctx, s); err != nil {
		return fmt.Errorf("create stream %s: %w", limitsStream, err)
	}
	_, err := js.CreateConsumer(ctx, limitsStream, cfg.Consumer(limitsStream))
	return err
}

// note remembers when streams were created.
func (c *claim) note(ctx context.Context, names ...string) error {
	for _, name := range names {
		s, err := c.js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			return err
		default:
			c.made[name] = s.CachedInfo().Created
		}
	}
	return nil
}

// leave deletes the streams of a claim, the lock last. It leaves all as they are if more was published to REPORTS than the bench did, or
// if sites were imported, and each that is no longer the one that was made.
func (c *claim) leave(ctx context.Context, published uint64) error {
	for name, ours := range map[string]uint64{stream.Reports: published, sitesStream: 0} {
		if s, err := c.js.Stream(ctx, name); err == nil && s.CachedInfo().State.LastSeq > ours {
			return fmt.Errorf("somebody else has published to %s while the bench ran: its streams are left as they are, and so is %s", name, lockStream)
		}
	}
	var errs []error
	for _, name := range slices.Concat(consumer.Streams(), []string{limitsStream, lockStream}) {
		made, ours := c.made[name]
		if !ours {
			continue
		}
		s, err := c.js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			continue
		case err == nil && !s.CachedInfo().Created.Equal(made):
			err = fmt.Errorf("stream %s was made anew by somebody else, and is left", name)
		case err == nil:
			err = c.js.DeleteStream(ctx, name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
