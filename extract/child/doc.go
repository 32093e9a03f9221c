// Package child inspects files in processes of their own, so that whatever a file or the parser does costs that one
// report and nothing else.
//
// A [Pool] is the worker's side: one process per CPU, each of them this same program, started again with a hidden
// command, long-lived, and given one file at a time. [Serve] is the process's side, and package pdf is what it does:
// PDFium inside wazero inside a process is two walls, and the outer one holds when the Go runtime itself gives up.
//
// # On the wire
//
// Pool and process talk over a socket pair, which is the process's standard input, in lines of JSON. When the engine
// is ready, its cache is warm and the process says
//
//	{"id":0}
//
// A request carries the open file (SCM_RIGHTS), never its content, and has one answer, a document or a refusal:
//
//	{"id":1,"size":18847,"limit":20000000000}
//	{"id":1,"document":{"pages":1,"pdf_version":"1.4","encrypted":false,"text_lengths":[48]}}
//
//	{"id":2,"size":4096,"limit":20000000000}
//	{"id":2,"error":{"code":"malformed-pdf","reason":"unparseable structure ..."}}
//
// The process is not trusted: an answer of more than 64 KiB, to another request, or that is not as above, is the end of
// it. What it prints is read, but of that only the first line is used, to say why it died. On systems without
// SCM_RIGHTS the connection is two pipes, and a request has the file's path.
//
// # Limits
//
// A process confines itself first thing (package limits): 1 GiB of memory, 64 descriptors, no core file, no
// descriptor beyond its own, CPU time for each file; and once the engine's cache is warm it may write no file. It has a process
// group of its own, dies with the worker, and its environment is three variables of the Go runtime's. The file's limit is
// 20 seconds. The engine keeps it; a process that says nothing for 2 seconds more is killed, with its group.
//
// # Deaths
//
// A process that dies, is killed, or had to kill its engine for time, is replaced, and the file is tried once more at once by a
// fresh process: it may have been bad luck. After that it is a verdict, poison:
//
//	killed-time     it did not answer in time, or used up its CPU time
//	killed-memory   the Go runtime could not get more memory
//	crashed         it ended in another way, or its answer could not be used
//
// One death proves nothing against the file: SIGKILL from outside, by the kernel because the machine is short of memory,
// or by a person. After the second try that is transient, killed-memory. A process that is found dead before it had the
// file, or is killed while it starts, does not count at all. What the engine itself says of a file, in a
// process that is well, is a verdict at once: a new instance would do the same with the same bytes.
//
// A process is also replaced after 500 files, and when the caller's context ends while it works: there is no other way
// to stop it.
//
// # Goroutines and shutdown
//
// The pool has none of its own. Each process has the one of package limits, which starts and reaps it, and those that
// copy what it prints; they end with it. [Pool.Close] first waits for the inspections under way, by taking all slots,
// as their processes are still needed; then it closes the connections, upon which the processes end by themselves; and kills
// those that have not after 2 seconds.
package child
