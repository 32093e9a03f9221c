// Package bench measures Guyline against the server that it runs on and against simpler ways to do the same job.
//
// Where it measures is a [Config]: on a server embedded in this process, in a process of its own, or on a given one (place.go). Rates depend on the machine
// and on what else runs on it, so every number here is also given as a ratio to a yardstick of the same repetition, and as processor time.
//
// [Throughput] has designs work a backlog (throughput.go). A lap is one design's way through it, on a fresh store (throughputlap.go): publish
// the backlog, start the clocks, work, and stop them when the server says that nothing is waiting or in work. Then what the lap has left on the
// server is counted; a design that has lost or doubled a report has no result. The designs (throughputdesigns.go) work the queues that
// [consumer.Setup] makes, and write the ledger entries that the product writes.
//
// [Latency] measures times, part by part, on the product alone; [Ledger] what a ledger costs at its size; [Publish] the publishing of a list.
//
// A given server is only used if it has none of the streams that a bench works on, and what is deleted in the end is what was made
// (claim.go).
package bench
