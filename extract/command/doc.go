// Package command runs an extractor of the operator's own, in any language, in place of the built-in inspection.
//
// The extractor is a program that looks at one file and says what is in it. A [Command] starts it anew for each
// report, with this contract:
//
//	stdin         the event, one JSON object as in package report
//	GUYLINE_FILE  the file's path: /dev/fd/3, so that it can be opened and read more than once, although the
//	              file may have no name any more. Descriptor 3 itself stands at the file's beginning
//	stdout        the result, one JSON object of at most 64 KiB, when it exits with 0
//	stderr        why not: its last three lines become the reason
//
// and these exit codes, from sysexits.h:
//
//	0    done
//	65   EX_DATAERR: the file is no good. Poison, rejected
//	75   EX_TEMPFAIL: try again later. Transient, temporary
//	78   EX_CONFIG: the extractor is not installed rightly. Hold, unclassified
//	else poison, unclassified
//
// What exits with 0 and does not print exactly one JSON object is poison (invalid-result), and so is more than
// 64 KiB (result-too-large); nothing of it is stored. A program that waits for its output to be read, floods stderr
// or does not read stdin at all does no harm.
//
// # Isolation
//
// The extractor runs confined by package limits: in a process group that is killed with everything in it when the
// extractor exits, when its time is over and when the worker dies; with limits on memory, CPU time, the size
// of files it writes (1 GiB) and open files (256). There are as many at once as [Config].AtOnce allows; others wait.
//
// It gets no other descriptor of the worker's, and of its environment only PATH, HOME, LANG and LC_ALL. TMPDIR is an
// empty directory that is removed afterwards, at the latest by the next worker's [New]. What else it needs is written in the command itself:
//
//	env MODEL=/srv/model.bin python3 /srv/extract.py
//
// It is not a sandbox: the extractor runs in the worker's working directory as the worker's user.
//
// # Deaths
//
// An extractor that does not exit but is killed is run once more, as it may have been bad luck. A second death is
// poison: killed-time if its time was over, killed-memory if its last words say that memory was lacking, crashed for any
// other signal. What a program says of lacking memory when it exits by itself ("MemoryError") counts as killed-memory
// too. SIGKILL from outside, by the kernel because the machine is short of memory, or by a person, proves nothing against
// the file: that is transient, killed-memory. A context that ends is no verdict: its error is returned plainly.
package command
