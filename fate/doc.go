// Package fate answers where a report stands.
//
// A report that a publisher handed over has exactly one fate, the first of these that holds:
//
//	done       the ledger has its result
//	waiting    a message in either queue stands for it: to be worked, in work, or parked
//	dead       a letter lies in the dead-letter queue
//	discarded  an operator gave it up, says the audit trail
//
// [Unknown] is the absence of a fate: it was never handed over. A report in motion must not look unknown, so the places are
// read in the order in which a report flows through them, through the stream leaders, and an
// unknown is read a second time before it is said.
//
// [Finder.Of] answers for one report, [Finder.Reconcile] for a list of them, and [Finder.Count] counts all. [Finder.Why] tells the [Story]
// of one report: what happened, why it is where it is, and what helps.
package fate
