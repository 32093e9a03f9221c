// Package integration proves the promise of the whole system: no report is lost, recorded twice, or left
// unexplained. It holds tests only. Each starts a real JetStream server in this process, hands reports over as a
// publisher would, works them with real consumers whose handler follows a script, and ends with the same
// check, read from the streams themselves: every report that was handed over has exactly one fate, nothing is in the
// ledger twice, every letter verifies, and nothing is left in the queues that the test does not expect there.
//
// A test is a world, made by newWorld with a script: what the handler does with a report at its n-th run.
//
//	w := newWorld(t, func(_ context.Context, e report.Event, run int) (report.Result, error) {
//		if run == 1 {
//			return nil, report.Transient(report.CodeTimeout, errors.New("slow"))
//		}
//		return nil, nil
//	})
//	key := w.publish("TWR-1", "s3://reports/a.pdf")
//	w.work()
//	w.drain()                           // until both queues are empty
//	w.wantRuns(key, 2)                  // what the handler saw
//	w.ends(invariant.Tally{Done: 1})    // the workers stop, the invariant holds
//
// The subjects, one file each, in the order in which a report could meet them:
//
//	duplicates   the same report handed over again: inside the window, outside it, to two workers, when it is dead
//	outcomes     transient, poison, exhausted, unclassified, a delay that the source asked for
//	events       hostile bodies and sites; big ones
//	headers      hostile headers: Guyline's own, the server's, malformed ones
//	swallowed    what the client library never shows to the handler
//	reasons      hostile error texts, and secrets in them
//	handler      panics, hangs, results that are none, work that outlives AckWait
//	replay       inside the window, failing again, landed meanwhile, over a restart
//	bulk         many letters at once: clocks that step, headers and payloads over many replays, a canary
//	autoreplay   a source that comes back, one that flaps, and workers that die while they replay
//	schedule     turns of a fleet, and clocks that are off
//	operators    two at once, and burials that were cut short
//	park         an upstream that is down, wrong credentials, and how long that is borne
//	hostile      files that were made to break the parser, and extraction processes that are killed (Linux)
//	restart      the server goes down under a batch
//	cluster      three replicas: leaders that hand over or stop, writers at once, replicas that are added
//	answers      the server's answers to writes are lost
//	partition    a worker falls silent, loses its report, and comes back
//	pressure     full MaxAckPending, and fairness between the queues
//	sites        the registry, and an import that was cut off
//	tamper       letters that somebody has changed
//	proof        everything is verified and signed while it is in motion
//	fate         what is said of a report in each place
//	why          its story, at each of its stations
//	reconcile    a list whose reports are in every place; reconcilemoving: while they move
//	reopened     a settled report that an operator wants worked again
//	balance      four hundred mixed reports, two consumers, nothing missing; workers that come and go
//	chaos        worker and server processes that are killed, frozen and cut off, by the harness of package chaos
//	promises     docs/promises.md names tests that there are
//
// Beside them, world has the server, the workers and the end of every test, looks what a test can see, and wire the
// faults of the line: messages that no client library would send, and a worker that is cut off.
//
// A test asserts outcomes and never times: it waits for what must come, and where something must not come it
// waits for a later thing that could not have come otherwise.
package integration
