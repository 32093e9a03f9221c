package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/doctor"
	"github.com/guyline/guyline/internal/natstest"
	"github.com/guyline/guyline/keyvalue"
	"github.com/guyline/guyline/proof"
	"github.com/guyline/guyline/stream"
)

const turnsStream = "KV_reports_turns"

// ward is a server that is set up, for the doctor to look at.
type ward struct {
	testing.TB
	js  jetstream.JetStream
	cfg consumer.Config
}

func newWard(t *testing.T) *ward {
	w := &ward{t, natstest.Start(t).JetStream(t), consumer.DefaultConfig()}
	w.must(w.setup())
	return w
}

func (w *ward) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// setup is what `guyline setup` does.
func (w *ward) setup() error {
	if err := consumer.Setup(w.Context(), w.js, w.cfg.Queues); err != nil {
		return err
	}
	return proof.Setup(w.Context(), w.js, w.cfg.Queues.Replicas)
}

// troubles are what the doctor finds, notes aside.
func (w *ward) troubles() (found []doctor.Finding) {
	w.Helper()
	f := doctor.Facts{Wanted: doctor.Wanted{Queues: w.cfg.Queues, Workers: w.cfg.Workers}}
	f, err := doctor.Look(w.Context(), w.js, f, func() []doctor.Denied { return nil })
	w.must(err)
	for _, x := range doctor.Examine(f) {
		if x.Level == doctor.Trouble {
			found = append(found, x)
		}
	}
	return found
}

func (w *ward) config(name string) jetstream.StreamConfig {
	w.Helper()
	s, err := w.js.Stream(w.Context(), name)
	w.must(err)
	return s.CachedInfo().Config
}

// edit changes a stream as an operator does.
func edit(name string, change func(*jetstream.StreamConfig)) func(*ward) {
	return func(w *ward) {
		cfg := w.config(name)
		change(&cfg)
		_, err := w.js.UpdateStream(w.Context(), cfg)
		w.must(err)
	}
}

// anew deletes a stream and makes another in its place, without the consumer that it had.
func anew(name string, change func(*jetstream.StreamConfig)) func(*ward) {
	return func(w *ward) {
		cfg := w.config(name)
		cfg.Metadata = nil
		change(&cfg)
		w.must(w.js.DeleteStream(w.Context(), name))
		_, err := w.js.CreateStream(w.Context(), cfg)
		w.must(err)
	}
}

// tune changes the consumer of a queue, or makes it anew.
func tune(queue string, again bool, change func(*jetstream.ConsumerConfig)) func(*ward) {
	return func(w *ward) {
		c, err := w.js.Consumer(w.Context(), queue, stream.Consumer)
		w.must(err)
		cfg := c.CachedInfo().Config
		cfg.Metadata = nil
		change(&cfg)
		if again {
			w.must(w.js.DeleteConsumer(w.Context(), queue, stream.Consumer))
		}
		_, err = w.js.CreateOrUpdateConsumer(w.Context(), queue, cfg)
		w.must(err)
	}
}

type (
	streamConfig   = jetstream.StreamConfig
	consumerConfig = jetstream.ConsumerConfig
)

// Every trap that a server accepts is found. What the doctor says that setup repairs, setup repairs, and nothing is left but what it
// says needs hands.
func TestTraps(t *testing.T) {
	t.Parallel()
	const reports, requeue = stream.Reports, stream.Requeued
	for _, tt := range []struct {
		name  string
		harm  func(*ward)
		found string // checks and places, in order
		left  string // after setup; "refused": setup says so
	}{
		{"nothing", func(*ward) {}, "", ""},
		{"no stream", func(w *ward) { w.must(w.js.DeleteStream(w.Context(), dlq.Stream)) }, "missing REPORTS_DLQ", ""},
		{"no bucket", func(w *ward) { w.must(w.js.DeleteStream(w.Context(), turnsStream)) }, "missing KV_reports_turns", ""},
		{"subjects taken", func(w *ward) {
			w.must(w.js.DeleteStream(w.Context(), dlq.Stream))
			_, err := w.js.CreateStream(w.Context(), streamConfig{Name: "OTHER", Subjects: []string{"reports.dlq.*.*"}})
			w.must(err)
		}, "missing REPORTS_DLQ", "refused"},
		{"sealed", edit(audit.Stream, func(c *streamConfig) { c.Sealed = true }), "sealed REPORTS_AUDIT", "refused"},
		{"memory", anew(dlq.Stream, func(c *streamConfig) { c.Storage = jetstream.MemoryStorage }), "storage REPORTS_DLQ", "refused"},
		{"memory bucket", anew(keyvalue.LedgerStream, func(c *streamConfig) { c.Storage = jetstream.MemoryStorage }), "storage KV_reports_ledger", "refused"},
		{"limits", anew(reports, func(c *streamConfig) { c.Retention = jetstream.LimitsPolicy }), "retention REPORTS, missing REPORTS/workers", "refused"},
		{"work queue", anew(dlq.Stream, func(c *streamConfig) { c.Retention = jetstream.WorkQueuePolicy }), "retention REPORTS_DLQ", "refused"},
		{"interest", edit(audit.Stream, func(c *streamConfig) { c.Retention = jetstream.InterestPolicy }), "retention REPORTS_AUDIT", ""},
		{"interest bucket", edit(keyvalue.LedgerStream, func(c *streamConfig) { c.Retention = jetstream.InterestPolicy }), "retention KV_reports_ledger", ""},
		{"async", anew(keyvalue.LedgerStream, func(c *streamConfig) { c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false }), "persist-mode KV_reports_ledger", "refused"},
		{"subjects", edit(requeue, func(c *streamConfig) { c.Subjects = []string{"reports.requeued.>"} }), "subjects REPORTS_REQUEUE", ""},
		{"more subjects", edit(reports, func(c *streamConfig) { c.Subjects = append(c.Subjects, "other.>") }), "subjects REPORTS", ""},
		{"sources", func(w *ward) {
			_, err := w.js.CreateStream(w.Context(), streamConfig{Name: "OTHER"})
			w.must(err)
			edit(reports, func(c *streamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} })(w)
		}, "sources REPORTS", ""},
		{"sourced bucket", func(w *ward) {
			_, err := w.js.CreateStream(w.Context(), streamConfig{Name: "OTHER"})
			w.must(err)
			edit(keyvalue.LedgerStream, func(c *streamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} })(w)
		}, "sources KV_reports_ledger", ""},
		{"mirror", func(w *ward) {
			_, err := w.js.CreateStream(w.Context(), streamConfig{Name: "OTHER"})
			w.must(err)
			anew(dlq.Stream, func(c *streamConfig) { c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "OTHER"}, nil })(w)
		}, "mirror REPORTS_DLQ", ""},
		{"transform", edit(reports, func(c *streamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "reports.submitted.*", Destination: "reports.submitted.x.{{wildcard(1)}}"}
		}), "subject-transform REPORTS", ""},
		{"counter", anew(dlq.Stream, func(c *streamConfig) { c.AllowMsgCounter, c.Discard = true, jetstream.DiscardOld }), "counter REPORTS_DLQ, discard REPORTS_DLQ", "refused"},
		{"no ack", edit(reports, func(c *streamConfig) { c.NoAck = true }), "no-ack REPORTS", ""},
		{"discard old", edit(dlq.Stream, func(c *streamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 10 }), "discard REPORTS_DLQ", ""},
		{"queue discards old", edit(reports, func(c *streamConfig) { c.Discard = jetstream.DiscardOld }), "discard REPORTS", ""},
		{"ledger discards old", edit(keyvalue.LedgerStream, func(c *streamConfig) { c.Discard = jetstream.DiscardOld }), "discard KV_reports_ledger", ""},
		{"history", edit(keyvalue.LedgerStream, func(c *streamConfig) { c.MaxMsgsPerSubject = 5 }), "per-subject KV_reports_ledger", ""},
		{"letters kept", edit(dlq.Stream, func(c *streamConfig) { c.MaxMsgsPerSubject = -1 }), "per-subject REPORTS_DLQ", ""},
		{"refuse a second", edit(dlq.Stream, func(c *streamConfig) { c.DiscardNewPerSubject = true }), "per-subject REPORTS_DLQ", ""},
		{"one per site", edit(reports, func(c *streamConfig) { c.MaxMsgsPerSubject = 1 }), "per-subject REPORTS", ""},
		{"age of reports", edit(reports, func(c *streamConfig) { c.MaxAge = time.Hour }), "max-age REPORTS", ""},
		{"age of requeued", edit(requeue, func(c *streamConfig) { c.MaxAge = time.Hour }), "max-age REPORTS_REQUEUE", ""},
		{"age of letters", edit(dlq.Stream, func(c *streamConfig) { c.MaxAge = time.Hour }), "max-age REPORTS_DLQ", "max-age REPORTS_DLQ"},
		{"age of results", edit(keyvalue.LedgerStream, func(c *streamConfig) { c.MaxAge = time.Hour }), "max-age KV_reports_ledger", "max-age KV_reports_ledger"},
		{"limits of requeued", edit(requeue, func(c *streamConfig) { c.MaxMsgs, c.MaxBytes, c.MaxMsgSize = 10, 1000, 100 }), "message-size REPORTS_REQUEUE, limits REPORTS_REQUEUE", ""},
		{"queue limits", edit(reports, func(c *streamConfig) { c.MaxMsgs, c.MaxBytes, c.MaxMsgSize = 10, 1000, 100 }), "message-size REPORTS, max-msgs REPORTS, max-bytes REPORTS", ""},
		{"small results", edit(keyvalue.LedgerStream, func(c *streamConfig) { c.MaxMsgSize = 100 }), "message-size KV_reports_ledger", ""},
		{"window", edit(reports, func(c *streamConfig) { c.Duplicates = time.Second }), "duplicates REPORTS", ""},
		{"rollup", edit(reports, func(c *streamConfig) { c.AllowRollup = true }), "rollup REPORTS", ""},
		{"schedules", edit(reports, func(c *streamConfig) { c.AllowMsgSchedules, c.Discard = true, jetstream.DiscardOld }), "discard REPORTS, schedules REPORTS", "refused"},
		{"no schedules", anew(requeue, func(c *streamConfig) { c.AllowMsgSchedules = false }), "schedules REPORTS_REQUEUE, missing REPORTS_REQUEUE/workers", ""},
		{"life", edit(reports, func(c *streamConfig) { c.AllowMsgTTL = true }), "message-ttl REPORTS", "refused"},
		{"deletes", anew(audit.Stream, func(c *streamConfig) { c.DenyDelete, c.DenyPurge = false, false }), "deny-delete REPORTS_AUDIT, deny-purge REPORTS_AUDIT", ""},
		{"no deletes", edit(dlq.Stream, func(c *streamConfig) { c.DenyDelete = true }), "deny-delete REPORTS_DLQ", "refused"},
		{"direct", edit(reports, func(c *streamConfig) { c.AllowDirect = false }), "direct REPORTS", ""},
		{"direct bucket", edit(keyvalue.LedgerStream, func(c *streamConfig) { c.AllowDirect = false }), "direct KV_reports_ledger", ""},
		{"limited consumers", edit(audit.Stream, func(c *streamConfig) { c.ConsumerLimits.InactiveThreshold = time.Minute }), "consumer-limits REPORTS_AUDIT", ""},
		{"full", func(w *ward) {
			edit(dlq.Stream, func(c *streamConfig) { c.MaxMsgs = 1 })(w)
			_, err := w.js.Publish(w.Context(), "reports.dlq.A.B", nil)
			w.must(err)
		}, "full REPORTS_DLQ", "full REPORTS_DLQ"},

		{"no consumer", func(w *ward) { w.must(w.js.DeleteConsumer(w.Context(), requeue, stream.Consumer)) }, "missing REPORTS_REQUEUE/workers", ""},
		{"another consumer instead", func(w *ward) {
			w.must(w.js.DeleteConsumer(w.Context(), reports, stream.Consumer))
			_, err := w.js.CreateConsumer(w.Context(), reports, consumerConfig{Durable: "thief", AckPolicy: jetstream.AckExplicitPolicy})
			w.must(err)
		}, "missing REPORTS/workers, second-consumer REPORTS", "refused"},
		{"another consumer too", func(w *ward) {
			_, err := w.js.CreateConsumer(w.Context(), requeue, consumerConfig{Durable: "thief", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "reports.parked.>"})
			w.must(err)
		}, "second-consumer REPORTS_REQUEUE", "second-consumer REPORTS_REQUEUE"},
		{"push", func(w *ward) {
			w.must(w.js.DeleteConsumer(w.Context(), reports, stream.Consumer))
			_, err := w.js.CreateOrUpdatePushConsumer(w.Context(), reports, consumerConfig{Durable: stream.Consumer, AckPolicy: jetstream.AckExplicitPolicy,
				DeliverSubject: "x", AckWait: 30 * time.Second, MaxDeliver: 6, MaxAckPending: 20000})
			w.must(err)
		}, "push REPORTS/workers", "refused"},
		{"backoff", tune(reports, false, func(c *consumerConfig) { c.BackOff = []time.Duration{time.Second, 2 * time.Second} }), "backoff REPORTS/workers", ""},
		{"few deliveries", tune(requeue, false, func(c *consumerConfig) { c.MaxDeliver = 1 }), "max-deliver REPORTS_REQUEUE/workers", ""},
		{"endless deliveries", tune(reports, false, func(c *consumerConfig) { c.MaxDeliver = -1 }), "max-deliver REPORTS/workers", ""},
		{"ack wait", tune(reports, false, func(c *consumerConfig) { c.AckWait = time.Minute }), "ack-wait REPORTS/workers", ""},
		{"filter", tune(reports, false, func(c *consumerConfig) { c.FilterSubject = "reports.submitted.A" }), "filter REPORTS/workers", ""},
		{"no filter", tune(requeue, false, func(c *consumerConfig) { c.FilterSubject = "" }), "filter REPORTS_REQUEUE/workers", ""},
		{"pending", tune(reports, false, func(c *consumerConfig) { c.MaxAckPending = 2 }), "max-ack-pending REPORTS/workers", ""},
		{"pulls", tune(reports, false, func(c *consumerConfig) { c.MaxRequestExpires = 100 * time.Millisecond }), "pull-limits REPORTS/workers", ""},
		{"small pulls", tune(reports, false, func(c *consumerConfig) { c.MaxRequestBatch = 1 }), "pull-limits REPORTS/workers", ""},
		{"headers", tune(reports, false, func(c *consumerConfig) { c.HeadersOnly = true }), "headers-only REPORTS/workers", ""},
		{"inactive", tune(reports, false, func(c *consumerConfig) { c.InactiveThreshold = time.Hour }), "inactive REPORTS/workers", ""},
		{"groups", tune(reports, true, func(c *consumerConfig) {
			c.PriorityGroups, c.PriorityPolicy = []string{"g"}, jetstream.PriorityPolicyOverflow
		}), "priority-groups REPORTS/workers", ""},
		{"memory consumer", tune(reports, true, func(c *consumerConfig) { c.MemoryStorage = true }), "storage REPORTS/workers", "refused"},
		{"original pace", tune(reports, true, func(c *consumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy }), "replay-policy REPORTS/workers", "refused"},
		{"few pulls", tune(reports, true, func(c *consumerConfig) { c.MaxWaiting = 2 }), "", ""},
		{"paused", func(w *ward) {
			_, err := w.js.PauseConsumer(w.Context(), reports, stream.Consumer, time.Now().Add(time.Hour))
			w.must(err)
		}, "paused REPORTS/workers", "paused REPORTS/workers"},
		{"waiting, nobody works", func(w *ward) {
			_, err := w.js.Publish(w.Context(), "reports.submitted.A", nil)
			w.must(err)
		}, "workers workers", "workers workers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			tt.harm(w)
			before := w.troubles()
			if got := names(before); got != tt.found {
				t.Errorf("found %q, want %q\n%v", got, tt.found, before)
			}
			err := w.setup()
			if tt.left == "refused" {
				if err == nil || strings.Contains(err.Error(), "\n") {
					t.Errorf("setup: %v, want one line that says why not", err)
				}
				return
			}
			w.must(err)
			after := w.troubles()
			if got := names(after); got != tt.left {
				t.Errorf("after setup %q is left, want %q\n%v", got, tt.left, after)
			}
			for _, x := range after {
				if x.Setup {
					t.Errorf("setup was to repair it: %v", x)
				}
			}
			w.must(w.setup())
		})
	}
}

func names(found []doctor.Finding) string {
	var all []string
	for _, x := range found {
		all = append(all, x.Check+" "+x.Where)
	}
	return strings.Join(all, ", ")
}

// The doctor leaves nothing behind, also where its probes are taken by others.
func TestLookChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	state := func() (all []jetstream.StreamState) {
		for s := range w.js.ListStreams(w.Context()).Info() {
			all = append(all, s.State)
		}
		return all
	}
	before := state()
	if found := w.troubles(); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	after := state()
	for i := range before {
		if before[i].LastSeq != after[i].LastSeq || before[i].Msgs != after[i].Msgs || before[i].Consumers != after[i].Consumers {
			t.Errorf("before %+v, after %+v", before[i], after[i])
		}
	}
	for _, name := range stream.Names() {
		c, err := w.js.Consumer(t.Context(), name, stream.Consumer)
		w.must(err)
		if i := c.CachedInfo(); i.Delivered.Consumer != 0 || i.NumWaiting != 0 {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

func TestBlind(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	srv.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := doctor.Look(ctx, js, doctor.Facts{Wanted: doctor.Wanted{Queues: consumer.DefaultConfig().Queues}}, func() []doctor.Denied { return nil })
	if err == nil {
		t.Error("it saw a server that is stopped")
	}
	if _, ok := doctor.Denial(errors.New("something else")); ok {
		t.Error("a denial was read out of something else")
	}
	if _, ok := doctor.Denial(nats.ErrPermissionViolation); ok {
		t.Error("a denial of nothing")
	}
}
