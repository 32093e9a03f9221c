// Package chaos shows that the promise holds when things break: it starts servers and workers as processes of their own, hands
// over reports whose fates it knows, breaks what it has started, heals it, and then reads the streams to see what became of each report.
//
// A run, in the order of its files:
//
//	config.go   what is asked for; Config.Command is the command line that repeats it
//	plan.go     the reports with their intended fates, and in which order they are published; all from the seed
//	fault.go    the faults and their times; from the seed too
//	servers.go  the servers, each with a proxy before it (proxy.go); or the proxies of a cluster that runs already
//	workers.go  the worker processes, started again when they end
//	publish.go  hands the reports over, each until it is acknowledged
//	inject.go   injects the faults, each of which heals itself
//	run.go      puts these together, waits until the queues are empty, and cleans up
//	check.go    compares what the streams hold with the plan; package books has read them
//	result.go   what came out
//
// Every process is this program under a hidden command ([Work], [Serve], [Clean]), started by package part, and ends with the harness.
//
// # What a report does
//
// A report's event says what is to become of it, and the handler of every worker obeys:
//
//	{"site_id": "CHAOS-7", "source_uri": "chaos://42/1057.pdf", "metadata": {"at": 2, "fate": "succeed", "pause_ms": 15}}
//
// How often a report has run is kept outside of the workers, in one file for each key, to which a run adds a line before it does
// anything else. So "succeeds at the second run" holds whichever worker runs it, and a report that kills its worker has been counted.
//
// # What is certain and what is not
//
// The plan follows from the seed. What happens does not: it depends on when the machine lets whom run. The same seed gives the same
// reports, in the same order, and the same faults at the same times, but not the same instant in a commit; a seed that has found
// something may need several runs to find it again.
package chaos
