// Package consumer holds the loop: it pulls reports from both queues, gives each to a [Handler], and
// settles it. One report's path is one page, process.go, whose numbers are these rows:
//
//	1   pull from both queues, only as much as free workers can take now; from here until it is
//	    settled the message gets a heartbeat every AckWait/3
//	2   decode, derive the key; undecodable or invalid: 7c
//	3   ledger check, before any work: done means ack, the stored result is the answer
//	3b  a letter about this very message exists: its burial was cut short, finish it
//	4   a carried verdict: 7c. An unknown site: 7c. More deliveries than attempts: 7c, without running it
//	4b  the last delivery ended without a verdict: the report is tried alone in its process
//	4c  its upstream is down and another report probes it: 7e
//	5   run the handler under a time-out; a panic is an error
//	6   judge: commit, retry, park or bury, by a pure function of error and attempt
//	7a  commit: write the ledger entry by compare-and-set, then ack
//	7b  retry: NAK with a delay
//	7c  bury: put the letter, record the death, wait for both, then TERM
//	7d  being stopped is not failing: hand the report back, no attempt is spent
//	7e  an upstream that is down is not the report's failing: park it for a while, no attempt is spent
//
// The ledger write is the commit. Whatever is lost after it, the next delivery finds the entry in row 3 and acks.
// A letter or a death that cannot be written is not let go: the message stays in hand, intake
// pauses, and the write is repeated until it succeeds or the worker is stopped; then the verdict travels with
// the report that is handed back.
//
// A handler returns its result and writes it nowhere else: two workers may both do the work, and only one commit
// wins. A sink that writes to another database does so keyed by the idempotency key.
//
//	c, err := consumer.Open(ctx, js, handler, consumer.DefaultConfig(), log)
//	if err != nil { ... }
//	err = c.Run(ctx) // until ctx is cancelled
//
// Dead letters are replayed without anybody's asking every Config.ReplayEvery (replays.go), and those of an upstream that answers again
// sooner (upstreams.go, recoveries.go): by one worker of the fleet, one upstream apart from the other, and in waves that begin with a single canary
// (waves.go). It is the same act as an operator's, with the worker as the actor.
//
// The goroutines are: one per queue that pulls (intake.go), at most two that look up what has arrived (batch.go), one per report that takes time, or that shares one with others which take none
// (batch.go, at most Config.Workers), with its handler in a second (attempt.go), one per commit that the server has not taken at once
// (commit.go), one that sends heartbeats (delivery.go), one that looks for messages which
// the server will never deliver again (sweep.go), two that look whether it is this worker's turn to replay (replays.go, recoveries.go), and
// two per upstream whose letters it is replaying (waves.go). [Consumer.Run] waits for all of them.
package consumer
