// Package dlq holds the yard: the dead letters, in the stream REPORTS_DLQ.
//
// A [Letter] is a report that could not be processed: its payload, byte for byte, with the reason in headers. It
// lies on reports.dlq.<site>.<key>, and only the newest of a report is kept:
//
//	reports.dlq.TWR-9017.068af75aea2c...5899
//	Guyline-Key: 068af75aea2c...5899
//	Guyline-Class: poison
//	Guyline-Code: malformed-pdf
//	Guyline-Reason: unparseable structure in s3://reports/twr9017_corrupt.pdf
//	Guyline-Audit-Hash: b9e1641245f0...f6fa       hex(sha256(key + ":" + reason))
//	Guyline-Attempts: 1
//	Guyline-Subject: reports.submitted.TWR-9017   where it was when it died
//	Guyline-Stream: REPORTS
//	Guyline-Stream-Sequence: 2
//	Guyline-Published-At: 2026-11-29T02:00:00.123Z
//	Guyline-Due: 2026-12-01T00:00:00Z             if the event has one
//	Guyline-First-Failed-At: 2026-11-29T02:00:01.5Z
//	Guyline-Failed-At: 2026-11-29T02:00:01.5Z
//	Guyline-Upstream: s3://reports                scheme://host of the source, or file
//	Guyline-Worker: host/4711
//	Guyline-Version: 0.1.0
//	X-Firm: Acme                                  the publisher's own header
//
//	{"site_id": "TWR-9017", ...}
//
// Where they apply there are also Guyline-Replays, how often the report was replayed before; Guyline-Reopened, the ledger's revision if it was being
// reprocessed; and Guyline-Headers-Dropped, how many headers the publisher had set, if they had more than 16 KiB.
//
// [Queue.Put] writes a letter by compare-and-set, [Queue.List] reads the headers of many, [Queue.Find] one with its
// payload. A letter leaves only by a named act: [Queue.Replay] sends the report back to the queue, [Queue.Discard]
// gives it up, [Queue.Repair] gives it up for a corrected one, and a letter whose report has landed by another way is closed as recovered ([Queue.Close]). Each act is in the
// audit trail before it takes effect, and can be repeated after a crash at any point. A report that was replayed too often is quarantined,
// see [Queue.Quarantined].
//
// Many letters are replayed in two steps: [Queue.Plan] says which and in what order, and [Queue.ReplayAll] sends them, at a rate,
// after a canary. [Queue.Verify] compares the letters with their hashes, their payloads and the trail.
package dlq
