// Package proof makes the audit trail and the ledger provable: whoever holds a signed [Checkpoint] can tell whether anything
// that it covers was changed since, and can be shown one report's story without any server.
//
// # The trees
//
// The trail is a Merkle tree (RFC 6962, by golang.org/x/mod/sumdb/tlog) over the events of REPORTS_AUDIT in stream order. Record
// i is the event with sequence i+1, and its data is
//
//	17                                              the sequence, decimal
//	reports.audit.TWR-9017.068af75aea2c...5899      the subject
//	{"time": "2026-11-29T02:00:01.5Z", ...}         the body, byte for byte, no newline after it
//
// Headers are not covered; nothing of ours depends on an event's. The tree is a function of the stream: whoever computes it gets
// the same root. It is computed while the events stream by, with one hash per level in memory.
//
// The ledger is a tree over its entries that are done, sorted by key, as the ledger was at one revision. A record's data is
//
//	628af88ec606...0024                             the key
//	100345                                          the entry's revision
//	9f86d081884c...0a08                             SHA-256 of the stored entry, hex, no newline after it
//
// so that two neighbours prove that nothing lies between them, and reveal no content. An entry that was reopened since is taken from
// the reprocess event in the trail, which keeps it byte for byte; so the tree of any earlier revision can be made again.
//
// # Checkpoints
//
// A [Checkpoint] is a note (golang.org/x/mod/sumdb/note, Ed25519) whose text has the shape of a C2SP tlog-checkpoint:
//
//	guyline/REPORTS_AUDIT/2026-11-01T08:00:00.123456789Z    origin: the stream and its creation time
//	1234                                                    events covered
//	n7gzjmJH...k4=                                          root of their tree
//	ledger 100000 100345 Xw1OjzFN...yQ=                     done entries covered, ledger revision, root of their tree
//	time 2026-11-29T22:00:00Z                               by the server's clock
//	gives-up 9f86d081884c...0a08                            as often as needed: SHA-256 of the note of one that need not fit
//
//	— guyline x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
//
// [Log.Sign] verifies everything, makes one and appends it to the stream REPORTS_CHECKPOINTS, on reports.checkpoints.note. Before
// it, on reports.checkpoints.leaves, go the record hashes of the events that are newly covered, 32 bytes each, with the index
// of the first in the header Guyline-First. They are believed only if they hash to a root that was signed; then [Log.Verify]
// names each event that was changed. Without them it can only name the range between two checkpoints.
//
// [Log.Restart] records in the trail why checkpoints that no longer fit are given up, and a checkpoint that names them gives them up.
// The event alone does not, as workers may write to the trail. [Log.Prove] makes a [Bundle] about one report,
// and [Check] verifies it offline. docs/audit.md says what each of these proves, and what none of them can.
package proof
