package stream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
)

// Names on the server.
const (
	Reports  = "REPORTS"
	Requeued = "REPORTS_REQUEUE"
	Consumer = "workers" // the durable of each of the two queues

	submittedAll = "reports.submitted.>"
	requeuedAll  = "reports.requeued.>"
	parkedAll    = "reports.parked.>"
)

// SpareDeliveries is what a consumer's MaxDeliver has beyond the attempts: they are for burying a
// report that kills its worker each time, never for trying.
const SpareDeliveries = 2

// Config is what the two queues depend on.
type Config struct {
	Replicas      int           // of each stream, 1-5
	QueueBytes    int64         // the most that REPORTS may hold
	Duplicates    time.Duration // window in which REPORTS drops a repeated Nats-Msg-Id
	AckWait       time.Duration // without a heartbeat for so long, a delivery is given to another worker
	MaxAttempts   int           // runs of the handler for one report; MaxDeliver is this + SpareDeliveries
	MaxAckPending int           // deliveries in work or waiting for their retry, per queue
}

// Setup creates both queues and their consumers, or upgrades them to the configuration. It changes
// AckWait and MaxDeliver of a consumer only while nothing is in work or waiting for a retry, since
// the server would move the pending delays. It keeps a consumer's pause: somebody wanted it.
func Setup(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	for _, s := range cfg.Streams() {
		if err := jsapi.Impose(ctx, js, s); err != nil {
			return err
		}
		if err := cfg.setupConsumer(ctx, js, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// Streams is what [Setup] makes of the two streams, in the order of [Names].
func (cfg Config) Streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{cfg.reports(), cfg.requeued()}
}

func (cfg Config) reports() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        Reports,
		Description: "Guyline: reports handed over by publishers",
		Subjects:    []string{submittedAll},
		Retention:   jetstream.WorkQueuePolicy,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    cfg.QueueBytes,
		MaxMsgSize:  report.MaxMessage,
		Duplicates:  cfg.Duplicates,
		Replicas:    cfg.Replicas,
		Storage:     jetstream.FileStorage,
		AllowDirect: true,
	}
}

// requeued has no bound of any kind: the server refuses schedules together with DiscardNew, and any other policy would
// drop old reports. Only our own processes may publish to it.
func (cfg Config) requeued() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              Requeued,
		Description:       "Guyline: reports handed back, replayed or parked",
		Subjects:          []string{requeuedAll, parkedAll},
		Retention:         jetstream.WorkQueuePolicy,
		Replicas:          cfg.Replicas,
		Storage:           jetstream.FileStorage,
		AllowDirect:       true,
		AllowMsgSchedules: true,
		AllowRollup:       true, // the server turns it on with schedules
	}
}

// Consumer is what [Setup] makes of the consumer of a queue.
func (cfg Config) Consumer(stream string) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable:       Consumer,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       cfg.AckWait,
		MaxDeliver:    cfg.MaxAttempts + SpareDeliveries,
		MaxAckPending: cfg.MaxAckPending,
		Replicas:      cfg.Replicas,
	}
	if stream == Requeued { // else a parked report would be delivered at once
		c.FilterSubject = requeuedAll
	}
	return c
}

func (cfg Config) setupConsumer(ctx context.Context, js jetstream.JetStream, name string) error {
	want := cfg.Consumer(name)
	got, err := js.Consumer(ctx, name, Consumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
	case err != nil:
		return fmt.Errorf("set up consumer %s of %s: %w", Consumer, name, err)
	default:
		info := got.CachedInfo()
		if err := changeable(info.Config); err != nil {
			return fmt.Errorf("set up consumer %s of %s: %w", Consumer, name, err)
		}
		want.MaxWaiting, want.PauseUntil, want.Metadata = info.Config.MaxWaiting, info.Config.PauseUntil, info.Config.Metadata
		drift := cfg.drift(info.Config)
		if len(drift) > 0 && info.NumAckPending > 0 {
			return fmt.Errorf("set up consumer %s of %s: %s, and %d reports are in work or waiting for a retry: "+
				"stop the workers when nothing is, then run setup again", Consumer, name, strings.Join(drift, "; "), info.NumAckPending)
		}
		if same(info.Config, want) {
			return nil
		}
	}
	if err := applyConsumer(ctx, js, name, want); err != nil {
		return fmt.Errorf("set up consumer %s of %s: %w", Consumer, name, err)
	}
	return nil
}

// same reports whether an update would change nothing, but for what the server adds by itself (v2.15.3).
func same(have, want jetstream.ConsumerConfig) bool {
	want.Name = have.Name
	return reflect.DeepEqual(have, want)
}

// growing is how long a stream may take to get the replicas that its consumer is to have too.
const growing = 30 * time.Second

// applyConsumer waits while the stream has not got its new replicas yet: an update is answered when it is wanted, not when it is done.
func applyConsumer(ctx context.Context, js jetstream.JetStream, name string, want jetstream.ConsumerConfig) error {
	ctx, cancel := context.WithTimeout(ctx, growing)
	defer cancel()
	for {
		_, err := js.CreateOrUpdateConsumer(ctx, name, want)
		e, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || e.ErrorCode != 10126 { // consumer config replica count exceeds parent stream (server v2.15.3)
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the stream has not got its %d replicas after %v: are enough servers running? %w", want.Replicas, growing, err)
		}
	}
}

// changeable returns an error that names what no update can make right (server v2.15.3).
func changeable(have jetstream.ConsumerConfig) error {
	var fixed []string
	for _, c := range []struct {
		is   bool
		what string
	}{
		{have.DeliverSubject != "", "it pushes"},
		{have.AckPolicy != jetstream.AckExplicitPolicy, "its ack policy is " + have.AckPolicy.String()},
		{have.DeliverPolicy != jetstream.DeliverAllPolicy, "it does not deliver all"},
		{have.ReplayPolicy != jetstream.ReplayInstantPolicy, "it replays at the original pace"},
		{have.MemoryStorage, "its state is kept in memory"},
	} {
		if c.is {
			fixed = append(fixed, c.what)
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	return fmt.Errorf("%s, which cannot be changed: delete it when nothing is in work or waiting for a retry (`nats consumer rm`), and run setup again",
		strings.Join(fixed, ", "))
}

// drift names the settings on which workers and server must agree and do not.
func (cfg Config) drift(got jetstream.ConsumerConfig) (found []string) {
	if want := cfg.MaxAttempts + SpareDeliveries; got.MaxDeliver != want {
		found = append(found, fmt.Sprintf("its MaxDeliver is %d, but GUYLINE_MAX_ATTEMPTS=%d needs %d", got.MaxDeliver, cfg.MaxAttempts, want))
	}
	if got.AckWait != cfg.AckWait {
		found = append(found, fmt.Sprintf("its AckWait is %v, but GUYLINE_ACK_WAIT is %v", got.AckWait, cfg.AckWait))
	}
	if len(got.BackOff) > 0 {
		found = append(found, "it has a BackOff, which falsifies retry delays")
	}
	return found
}
