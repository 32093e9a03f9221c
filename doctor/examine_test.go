package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/stream"
)

// healthy is a server on which everything is as setup makes it, and a worker pulls.
func healthy() Facts {
	f := Facts{
		Wanted: Wanted{Workers: 8, Queues: stream.Config{
			Replicas: 1, QueueBytes: 8 << 30, Duplicates: 2 * time.Minute, AckWait: 30 * time.Second, MaxAttempts: 4, MaxAckPending: 20000,
		}},
		Servers: []Server{{Address: "nats://a:4222", Version: "2.15.3", MaxPayload: 1 << 20}},
		Account: &jetstream.AccountInfo{Tier: jetstream.Tier{Limits: jetstream.AccountLimits{MaxStore: -1}}},
		Sync:    []Sync{{Server: "a", Always: true}},
		Work:    &Work{Pulling: 1},
	}
	f.Streams = f.streams()
	for i := range f.Streams {
		s := &f.Streams[i]
		s.Have = &jetstream.StreamInfo{Config: s.Want}
		if c := s.Consumer; c != nil {
			c.Have = &jetstream.ConsumerInfo{Config: c.Want}
		}
	}
	return f
}

// of is a change of one stream.
func of(r role, change func(*jetstream.StreamConfig)) func(*Facts) {
	return func(f *Facts) { change(&f.Streams[r].Have.Config) }
}

// worker is a change of the consumer of REPORTS.
func worker(change func(*jetstream.ConsumerConfig)) func(*Facts) {
	return func(f *Facts) { change(&f.Streams[queue].Consumer.Have.Config) }
}

// store is an embedded store with so many bytes left on its disk.
func store(free uint64) *Store { return &Store{Dir: "./data", Free: &free} }

// ttl is a ledger that should forget after one time, and does after another.
func ttl(want, have time.Duration) func(*Facts) {
	return func(f *Facts) {
		s := &f.Streams[ledger]
		s.aged, s.Want.MaxAge, s.Have.Config.MaxAge = true, want, have
	}
}

type (
	streamConfig   = jetstream.StreamConfig
	consumerConfig = jetstream.ConsumerConfig
)

func TestExamine(t *testing.T) {
	t.Parallel()
	const durable = "note durability power failure"
	for _, tt := range []struct {
		name   string
		change func(*Facts)
		want   string // level, check, where
		says   string // in its line
	}{
		{"nothing", func(*Facts) {}, "", ""},

		{"missing", func(f *Facts) { f.Streams[letters].Have = nil }, "trouble missing REPORTS_DLQ", "workers do not start; `guyline setup` repairs it"},
		{"taken", func(f *Facts) { f.Streams[queue].Have, f.Streams[queue].Holder = nil, "OTHER" }, "trouble missing REPORTS", "take the subjects from OTHER"},
		{"sealed", of(trail, func(c *streamConfig) { c.Sealed = true }), "trouble sealed REPORTS_AUDIT", "by hand"},
		{"memory", of(ledger, func(c *streamConfig) { c.Storage = jetstream.MemoryStorage }), "trouble storage KV_reports_ledger", "settled reports are forgotten"},
		{"limits", of(queue, func(c *streamConfig) { c.Retention = jetstream.LimitsPolicy }), "trouble retention REPORTS", "not workqueue"},
		{"work queue", of(letters, func(c *streamConfig) { c.Retention = jetstream.WorkQueuePolicy }), "trouble retention REPORTS_DLQ", "whoever reads it removes it; by hand"},
		{"interest", of(trail, func(c *streamConfig) { c.Retention = jetstream.InterestPolicy }), "trouble retention REPORTS_AUDIT", "`guyline setup` repairs it"},
		{"async", of(queue, func(c *streamConfig) { c.PersistMode = jetstream.AsyncPersistMode }), "trouble persist-mode REPORTS", "acknowledges before it writes"},
		{"one subject less", of(requeue, func(c *streamConfig) { c.Subjects = c.Subjects[:1] }), "trouble subjects REPORTS_REQUEUE", "reports.parked.>"},
		{"one subject more", of(queue, func(c *streamConfig) { c.Subjects = append(slices.Clone(c.Subjects), "x") }), "trouble subjects REPORTS", "x"},
		{"mirror", of(trail, func(c *streamConfig) { c.Mirror = &jetstream.StreamSource{Name: "M"} }), "trouble mirror REPORTS_AUDIT", "mirror of M"},
		{"sources", of(ledger, func(c *streamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "S"}} }), "trouble sources KV_reports_ledger", "such as S"},
		{"transform", of(queue, func(c *streamConfig) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} }), "trouble subject-transform REPORTS", ""},
		{"counter", of(letters, func(c *streamConfig) { c.AllowMsgCounter = true }), "trouble counter REPORTS_DLQ", "by hand"},
		{"no ack", of(queue, func(c *streamConfig) { c.NoAck = true }), "trouble no-ack REPORTS", ""},
		{"discard old", of(letters, func(c *streamConfig) { c.Discard = jetstream.DiscardOld }), "trouble discard REPORTS_DLQ", "dead letters are dropped"},
		{"history", of(ledger, func(c *streamConfig) { c.MaxMsgsPerSubject = 5 }), "trouble per-subject KV_reports_ledger", "more than the newest"},
		{"no replacing", of(letters, func(c *streamConfig) { c.MaxMsgsPerSubject = -1 }), "trouble per-subject REPORTS_DLQ", ""},
		{"one per site", of(queue, func(c *streamConfig) { c.MaxMsgsPerSubject = 1 }), "trouble per-subject REPORTS", "reports are dropped"},
		{"refuse a second", of(letters, func(c *streamConfig) { c.DiscardNewPerSubject = true }), "trouble per-subject REPORTS_DLQ", "refused"},
		{"age of reports", of(queue, func(c *streamConfig) { c.MaxAge = time.Hour }), "trouble max-age REPORTS", "`guyline setup` repairs it"},
		{"age of letters", of(letters, func(c *streamConfig) { c.MaxAge = 720 * time.Hour }), "trouble max-age REPORTS_DLQ", "after 30 days: dead letters are dropped, and their reports have no fate; by hand"},
		{"age of events", of(trail, func(c *streamConfig) { c.MaxAge = time.Hour }), "trouble max-age REPORTS_AUDIT", "by hand"},
		{"age of results", of(ledger, func(c *streamConfig) { c.MaxAge = time.Hour }), "trouble max-age KV_reports_ledger", "worked again"},
		{"age that is not ours", of(ledger, func(c *streamConfig) { c.MaxAge = time.Hour }), "trouble max-age KV_reports_ledger", "or say with GUYLINE_LEDGER_TTL that it is meant"},
		{"forgets as it should", ttl(720*time.Hour, 720*time.Hour), "note ledger-ttl KV_reports_ledger", "after 30 days, as GUYLINE_LEDGER_TTL says"},
		{"forgets too soon", ttl(720*time.Hour, 168*time.Hour), "trouble ledger-ttl KV_reports_ledger", "after 7 days, but GUYLINE_LEDGER_TTL says after 30 days: settled reports are forgotten"},
		{"forgets too late", ttl(720*time.Hour, 0), "trouble ledger-ttl KV_reports_ledger", "never, but GUYLINE_LEDGER_TTL says after 30 days: it needs memory"},
		{"should not forget", ttl(0, 720*time.Hour), "trouble ledger-ttl KV_reports_ledger", "after 30 days, but GUYLINE_LEDGER_TTL says never: settled reports are forgotten"},
		{"does not forget", ttl(0, 0), "", ""},
		{"age of turns", of(turns, func(c *streamConfig) { c.MaxAge = time.Hour }), "trouble max-age KV_reports_turns", "--max-age=720h"},
		{"older turns", of(turns, func(c *streamConfig) { c.MaxAge = 60 * 24 * time.Hour }), "", ""},
		{"small messages", of(letters, func(c *streamConfig) { c.MaxMsgSize = 1000 }), "trouble message-size REPORTS_DLQ", "1000 B, not unlimited"},
		{"large reports", of(queue, func(c *streamConfig) { c.MaxMsgSize = -1 }), "trouble message-size REPORTS", "too large for a dead letter"},
		{"few reports", of(queue, func(c *streamConfig) { c.MaxMsgs = 10 }), "trouble max-msgs REPORTS", ""},
		{"few bytes", of(queue, func(c *streamConfig) { c.MaxBytes = 1 << 20 }), "trouble max-bytes REPORTS", "1.0 MiB, but GUYLINE_QUEUE_BYTES is 8.0 GiB"},
		{"few requeued", of(requeue, func(c *streamConfig) { c.MaxMsgs = 10 }), "trouble limits REPORTS_REQUEUE", "reports are dropped"},
		{"few requeued bytes", of(requeue, func(c *streamConfig) { c.MaxBytes = 10 }), "trouble limits REPORTS_REQUEUE", ""},
		{"window", of(queue, func(c *streamConfig) { c.Duplicates = time.Second }), "trouble duplicates REPORTS", "GUYLINE_DUPLICATES is 2m0s"},
		{"long window", of(queue, func(c *streamConfig) { c.Duplicates = time.Hour }), "trouble duplicates REPORTS", "memory"},
		{"rollup", of(queue, func(c *streamConfig) { c.AllowRollup = true }), "trouble rollup REPORTS", "erases all"},
		{"no rollup", of(ledger, func(c *streamConfig) { c.AllowRollup = false }), "trouble rollup KV_reports_ledger", ""},
		{"schedules", of(queue, func(c *streamConfig) { c.AllowMsgSchedules, c.AllowRollup = true, true }), "trouble schedules REPORTS", "by hand"},
		{"no schedules", of(requeue, func(c *streamConfig) { c.AllowMsgSchedules = false }), "trouble schedules REPORTS_REQUEUE", "parked"},
		{"life", of(queue, func(c *streamConfig) { c.AllowMsgTTL = true }), "trouble message-ttl REPORTS", "whoever publishes can make them vanish"},
		{"life of keys", of(ledger, func(c *streamConfig) { c.AllowMsgTTL = true }), "", ""},
		{"deletes", of(trail, func(c *streamConfig) { c.DenyDelete = false }), "trouble deny-delete REPORTS_AUDIT", "not append-only"},
		{"purges", of(checkpoints, func(c *streamConfig) { c.DenyPurge = false }), "trouble deny-purge REPORTS_CHECKPOINTS", ""},
		{"no deletes", of(letters, func(c *streamConfig) { c.DenyDelete = true }), "trouble deny-delete REPORTS_DLQ", "stays in it"},
		{"direct", of(queue, func(c *streamConfig) { c.AllowDirect = false }), "trouble direct REPORTS", "reconcile"},
		{"readers", of(trail, func(c *streamConfig) { c.MaxConsumers = 1 }), "trouble max-consumers REPORTS_AUDIT", ""},
		{"limited consumers", of(queue, func(c *streamConfig) { c.ConsumerLimits.MaxAckPending = 1 }), "trouble consumer-limits REPORTS", ""},
		{"replicas", of(letters, func(c *streamConfig) { c.Replicas = 3 }), "trouble replicas REPORTS_DLQ", "set GUYLINE_REPLICAS=3"},
		{"damage", func(f *Facts) { f.Streams[queue].Have.State.Lost = &jetstream.LostStreamData{Msgs: []uint64{1}} }, "trouble damage REPORTS", "1 message was damaged"},
		{"full at 70 %", func(f *Facts) { f.Streams[letters].Have.Config.MaxMsgs, f.Streams[letters].Have.State.Msgs = 10, 7 }, "note full REPORTS_DLQ", "70 % full, by messages"},
		{"full at 90 %", func(f *Facts) { f.Streams[trail].Have.Config.MaxBytes, f.Streams[trail].Have.State.Bytes = 100, 95 }, "trouble full REPORTS_AUDIT", "95 % full, by bytes: when it is full, intake stops"},
		{"not full", func(f *Facts) { f.Streams[letters].Have.Config.MaxMsgs, f.Streams[letters].Have.State.Msgs = 10, 6 }, "", ""},

		{"no consumer", func(f *Facts) { f.Streams[queue].Consumer.Have = nil }, "trouble missing REPORTS/workers", "nothing is delivered"},
		{"push", worker(func(c *consumerConfig) { c.DeliverSubject = "x" }), "trouble push REPORTS/workers", ""},
		{"ack policy", worker(func(c *consumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }), "trouble ack-policy REPORTS/workers", ""},
		{"deliver policy", worker(func(c *consumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy }), "trouble deliver-policy REPORTS/workers", ""},
		{"replay policy", worker(func(c *consumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy }), "trouble replay-policy REPORTS/workers", ""},
		{"memory consumer", worker(func(c *consumerConfig) { c.MemoryStorage = true }), "trouble storage REPORTS/workers", "attempts are forgotten"},
		{"waiting", worker(func(c *consumerConfig) { c.MaxWaiting = 2 }), "note max-waiting REPORTS/workers", ""},
		{"backoff", worker(func(c *consumerConfig) { c.BackOff, c.AckWait = []time.Duration{1}, 1 }), "trouble backoff REPORTS/workers", "later than they were asked for"},
		{"few deliveries", worker(func(c *consumerConfig) { c.MaxDeliver = 4 }), "trouble max-deliver REPORTS/workers", "without a verdict"},
		{"many deliveries", worker(func(c *consumerConfig) { c.MaxDeliver = 40 }), "trouble max-deliver REPORTS/workers", "is 40, but GUYLINE_MAX_ATTEMPTS + 2 is 6"},
		{"endless deliveries", worker(func(c *consumerConfig) { c.MaxDeliver = -1 }), "trouble max-deliver REPORTS/workers", "for ever"},
		{"ack wait", worker(func(c *consumerConfig) { c.AckWait = time.Minute }), "trouble ack-wait REPORTS/workers", "1m0s, but GUYLINE_ACK_WAIT is 30s"},
		{"ack wait, in work", func(f *Facts) {
			f.Streams[queue].Consumer.Have.Config.AckWait = time.Minute
			f.Streams[queue].Consumer.Have.NumAckPending = 3
		}, "trouble ack-wait REPORTS/workers", "once nothing is in work or waiting for a retry (now 3)"},
		{"filter", worker(func(c *consumerConfig) { c.FilterSubject = "reports.submitted.A" }), "trouble filter REPORTS/workers", "only reports.submitted.A"},
		{"filter of all", worker(func(c *consumerConfig) { c.FilterSubject = "reports.submitted.>" }), "", ""},
		{"no filter", func(f *Facts) { f.Streams[requeue].Consumer.Have.Config.FilterSubject = "" }, "trouble filter REPORTS_REQUEUE/workers", "parked reports are delivered at once"},
		{"other filter", func(f *Facts) { f.Streams[requeue].Consumer.Have.Config.FilterSubject = "reports.>" }, "trouble filter REPORTS_REQUEUE/workers", ""},
		{"few pending", worker(func(c *consumerConfig) { c.MaxAckPending = 8 }), "trouble max-ack-pending REPORTS/workers", "the 8 workers"},
		{"fewer pending", worker(func(c *consumerConfig) { c.MaxAckPending = 1000 }), "trouble max-ack-pending REPORTS/workers", "fresh ones wait"},
		{"more pending", worker(func(c *consumerConfig) { c.MaxAckPending = 30000 }), "trouble max-ack-pending REPORTS/workers", "more reports"},
		{"short pulls", worker(func(c *consumerConfig) { c.MaxRequestExpires = time.Millisecond }), "trouble pull-limits REPORTS/workers", ""},
		{"small pulls", worker(func(c *consumerConfig) { c.MaxRequestBatch = 7 }), "trouble pull-limits REPORTS/workers", "are refused"},
		{"pulls for all workers", worker(func(c *consumerConfig) { c.MaxRequestBatch = 8 }), "", ""},
		{"headers", worker(func(c *consumerConfig) { c.HeadersOnly = true }), "trouble headers-only REPORTS/workers", "undecodable"},
		{"inactive", worker(func(c *consumerConfig) { c.InactiveThreshold = time.Hour }), "trouble inactive REPORTS/workers", "for 1h0m0s"},
		{"groups", worker(func(c *consumerConfig) { c.PriorityGroups = []string{"g"} }), "trouble priority-groups REPORTS/workers", ""},
		{"paused", func(f *Facts) {
			f.Streams[queue].Consumer.Have.Paused = true
			f.Streams[queue].Consumer.Have.Config.PauseUntil = new(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		}, "trouble paused REPORTS/workers", "until 2030-01-01T00:00:00Z: nothing is delivered until then; by hand: nats consumer resume REPORTS workers"},
		{"consumer's replicas", worker(func(c *consumerConfig) { c.Replicas = 3 }), "trouble replicas REPORTS/workers", ""},
		{"another consumer", func(f *Facts) { f.Streams[requeue].Others = []string{"thief"} }, "trouble second-consumer REPORTS_REQUEUE", "nats consumer rm REPORTS_REQUEUE thief"},

		{"silent server", func(f *Facts) { f.Servers = append(f.Servers, Server{Address: "nats://b:4222", Err: "timeout"}) }, "trouble unreachable nats://b:4222", "(timeout)"},
		{"old server", func(f *Facts) { f.Servers[0].Version = "2.14.9" }, "trouble version nats://a:4222", "2.14.9"},
		{"preview", func(f *Facts) { f.Servers[0].Version = "2.15.1-RC.2" }, "trouble version nats://a:4222", ""},
		{"new server", func(f *Facts) { f.Servers[0].Version = "3.0.0" }, "", ""},
		{"unknown server", func(f *Facts) { f.Servers[0].Version = "devel" }, "", ""},
		{"payload", func(f *Facts) { f.Servers[0].MaxPayload = 65536 }, "trouble max-payload nats://a:4222", "max_payload: 1MB"},
		{"denied", func(f *Facts) { f.Denied = []Denied{{"publish", "reports.dlq.probe.probe"}} }, "trouble permission permissions", "may not publish to reports.dlq.probe.probe: workers cannot bury"},
		{"unread", func(f *Facts) { f.Unread = []Unread{{"REPORTS", "timeout"}} }, "trouble unread REPORTS", "timeout"},
		{"clock ahead", func(f *Facts) { f.Streams[trail].Skew = 7 * time.Second }, "trouble clock clock", "7s ahead of this machine's"},
		{"clock behind", func(f *Facts) {
			f.Streams[trail].Skew = -time.Minute
			f.Streams[trail].Have.Cluster = &jetstream.ClusterInfo{Leader: "node-2"}
		}, "trouble clock clock", "the clock of node-2 is 1m0s behind"},
		{"clock near", func(f *Facts) { f.Streams[trail].Skew = -5 * time.Second }, "", ""},
		{"account", func(f *Facts) {
			f.Account.Tier = jetstream.Tier{Store: 91, Limits: jetstream.AccountLimits{MaxStore: 100}}
		}, "trouble account account", "91 % full"},
		{"tier", func(f *Facts) {
			f.Account.Tiers = map[string]jetstream.Tier{"R3": {Store: 71, Limits: jetstream.AccountLimits{MaxStore: 100}}}
		}, "note account account R3", "71 % full"},
		{"stranded, nobody pulls", func(f *Facts) { f.Work = &Work{Stranded: 2, Waiting: 0} }, "trouble stranded queues, note workers workers", "2 reports are stranded"},
		{"stranded", func(f *Facts) { f.Work.Stranded = 1 }, "note stranded queues", "1 report is stranded"},
		{"nobody works", func(f *Facts) { f.Work = &Work{Waiting: 5} }, "trouble workers workers", "5 reports wait"},
		{"all busy", func(f *Facts) { f.Work = &Work{Waiting: 5, InWork: 3} }, "", ""},
		{"work unknown", func(f *Facts) { f.Work = nil }, "", ""},

		{"lazy", func(f *Facts) { f.Sync[0] = Sync{"a", false, 2 * time.Minute} }, "trouble durability power failure", "a syncs its disk every 2m0s"},
		{"not known", func(f *Facts) { f.Sync = nil }, durable, "by this user"},
		{"embedded", func(f *Facts) { f.Store = store(100 << 30) }, durable, "nothing that was acknowledged is lost"},
		{"embedded, lazy", func(f *Facts) { f.Store = &Store{LazySync: true} }, "trouble durability power failure", "last two minutes"},
		{"embedded elsewhere", func(f *Facts) { f.Store = &Store{Remote: true, LazySync: true} }, durable, "another process"},
		{"disk unknown", func(f *Facts) { f.Store = &Store{Dir: "./data"} }, durable, ""},
		{"full disk", func(f *Facts) { f.Store = store(0) }, "trouble disk ./data, " + durable, "the disk has 0 B left: when it is full"},
		{"disk", func(f *Facts) { f.Store = store(1 << 20) }, "trouble disk ./data, " + durable, "1.0 MiB left"},
		{"small disk", func(f *Facts) { f.Store = store(2 << 30) }, durable + ", note disk ./data", "2.0 GiB left, and the queue may grow by 8.0 GiB"},
		{"large disk", func(f *Facts) { f.Store = store(8 << 30) }, durable, ""},
		{"room for the queue, not for what waits", func(f *Facts) {
			f.Store = store(8 << 30)
			f.Streams[queue].Have.State.Msgs, f.Streams[requeue].Have.State.Msgs = 1_000_000, 1_000_000
		}, durable + ", note disk ./data", "8.0 GiB left, of which the ledger needs 1.4 GiB for 2000000 reports that wait, and the queue may grow by 8.0 GiB"},
		{"no room for what waits", func(f *Facts) {
			f.Store, f.Streams[requeue].Have.State.Msgs = store(2<<30), 2_000_000
		}, "trouble disk ./data, " + durable, "2.0 GiB left, of which the ledger needs 1.4 GiB for 2000000 reports that wait: when it is full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			tt.change(&f)
			var got, lines []string
			for _, x := range Examine(f) {
				if x.Check == "durability" && tt.name != "lazy" && f.Store == nil && f.Sync != nil { // all is well
					continue
				}
				got = append(got, string(x.Level)+" "+x.Check+" "+x.Where)
				lines = append(lines, x.String())
				if x.What == "" || x.Level == Trouble && (x.Follows == "" || x.Do == "") || strings.ContainsRune(x.String(), '\n') {
					t.Errorf("not a whole line: %+v", x)
				}
			}
			if g := strings.Join(got, ", "); g != tt.want {
				t.Errorf("found %q, want %q\n%s", g, tt.want, strings.Join(lines, "\n"))
			}
			if all := strings.Join(lines, "\n"); !strings.Contains(all, tt.says) {
				t.Errorf("no %q in\n%s", tt.says, all)
			}
		})
	}
}

func TestExamineReplicas(t *testing.T) {
	t.Parallel()
	three := func() Facts {
		f := healthy()
		f.Queues.Replicas, f.Sync = 3, nil
		for i := range f.Streams {
			s := &f.Streams[i]
			s.Want.Replicas, s.Have.Config.Replicas = 3, 3
			s.Have.Cluster = &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Current: true}, {Name: "c", Current: true}}}
		}
		f.Streams[queue].Consumer.Have.Config.Replicas, f.Streams[requeue].Consumer.Have.Config.Replicas = 3, 3
		return f
	}
	for name, tt := range map[string]struct {
		change func(*Facts)
		want   string // check and line of what is no note on durability
		says   string
	}{
		"well":      {func(*Facts) {}, "", "more than half of the replicas"},
		"lazy":      {func(f *Facts) { f.Sync = []Sync{{"a", false, time.Minute}} }, "", "a syncs its disk every 1m0s"},
		"too few":   {func(f *Facts) { f.Streams[ledger].Have.Config.Replicas = 1 }, "replicas", "it has 1 replica, but GUYLINE_REPLICAS is 3"},
		"away":      {func(f *Facts) { f.Streams[ledger].Have.Cluster.Replicas[0].Offline = true }, "replica-away", "b"},
		"behind":    {func(f *Facts) { f.Streams[ledger].Have.Cluster.Replicas[1].Current = false }, "replica-behind", "c"},
		"no leader": {func(f *Facts) { f.Streams[ledger].Have.Cluster.Leader = "" }, "leader", "it has no leader"},
		"even":      {func(f *Facts) { f.Queues.Replicas = 4 }, "quorum", "use 3 or 5"},
		"short AckWait": {func(f *Facts) {
			f.Streams[queue].Consumer.Want.AckWait, f.Streams[queue].Consumer.Have.Config.AckWait = time.Second, time.Second
		}, "ack-wait", "election"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := three()
			tt.change(&f)
			var got []string
			var said strings.Builder
			for _, x := range Examine(f) {
				said.WriteString(x.String() + "\n")
				if x.Check != "durability" {
					got = append(got, x.Check)
				}
			}
			if g := strings.Join(got, ", "); g != tt.want || !strings.Contains(said.String(), tt.says) {
				t.Errorf("found %q, want %q and %q in\n%s", g, tt.want, tt.says, said.String())
			}
		})
	}
}

func TestSkew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct{ server, took, want time.Duration }{
		{0, time.Second, 0}, {time.Second, time.Second, 0}, {3 * time.Second, time.Second, 2 * time.Second}, {-time.Minute, time.Second, -time.Minute},
	} {
		if got := skew(now.Add(tt.server), now, tt.took); got != tt.want {
			t.Errorf("server %v later, answer after %v: %v, want %v", tt.server, tt.took, got, tt.want)
		}
	}
	if got := skew(time.Time{}, now, 0); got != 0 {
		t.Errorf("no time: %v", got)
	}
}
