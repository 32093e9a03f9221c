// Package stream holds the roads that reports travel: two work queues and their durable
// pull consumers.
//
// REPORTS is the publishers' door. An event is published to reports.submitted.<site> with its idempotency
// key as Nats-Msg-Id; [Publish] and [PublishAll] do that and wait for the server's word. A list goes in portions: while some are on
// their way (flight.go), the next is asked about and the one after it is read (portions.go). The stream
// discards nothing: when it is full it refuses the publisher ([ErrQueueFull]).
//
// REPORTS_REQUEUE is our own second door. What a worker hands back at its shutdown and what an
// operator replays is put there by [Queues.Requeue], on reports.requeued.<site>.<key>, byte for byte as it was, with
// what must not be forgotten ([Carried]) in Guyline-* headers. A requeued message:
//
//	reports.requeued.TWR-9017.068af75aea2c...5899
//	X-Firm: Acme                                     the publisher's own header
//	Guyline-Published-At: 2026-11-29T02:00:00.123Z   when the publisher handed it over
//	Guyline-Replays: 1
//	Guyline-Replay-Of: 17                            sequence of the letter it was
//	Nats-Expected-Last-Subject-Sequence: 0           the fence: no other copy of this report
//
//	{"site_id": "TWR-9017", ...}
//
// Guyline-* headers count only there; on REPORTS anyone may have written them and they are ignored.
//
// Each queue has one durable consumer, [Consumer]. [Setup] creates or upgrades streams and consumers,
// [Queues.Worker] checks that they fit this worker's configuration. [Read] turns a stored or delivered message of
// either queue into a [Message]: the event, its key, and what it carries.
package stream
