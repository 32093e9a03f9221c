// Package pdf asks PDFium what a file says. It is the inside of the isolation: package child runs it in a process of
// its own.
//
// [Open] compiles PDFium from WebAssembly, or loads it compiled from a cache directory, and returns an [Engine].
// [Engine.Inspect] reads one file through an [io.ReaderAt] and returns a [Document], or an error with a kind and
// code of package report.
//
// # The sandbox
//
// PDFium runs in wazero: no cgo, no file system, no network, at most 128 MiB of memory for one file. Each file gets a
// new instance that is thrown away afterwards, so a file can spoil nothing but its own inspection. An instance
// that runs for too long is killed, and Inspect returns only when no call into it is running any more. What the
// sandbox does not bound is the Go side: growing the sandbox's memory copies it, so a process that inspects 128 MiB
// bombs needs several times that.
//
// # What makes a report
//
// A file is accepted if PDFium opens it, counts at least one page and can load the first: a page count alone may be a
// claim that the file cannot keep. The rest is worth having, but no reason to refuse: title, producer and date are
// missing in many files, and text is collected for the first 1,000 pages and for some 3 seconds, whichever ends first. If
// PDFium fails or hangs over the text, the document is accepted with what is known by then, and [Document.TextPartial] says so.
//
// # Verdicts
//
// All are poison, as the same bytes would do it again:
//
//	malformed-pdf   PDFium cannot make sense of the file
//	no-pages        no page, or the first does not load
//	encrypted       it needs a password
//	killed-time     it took longer than the caller's limit
//	killed-memory   PDFium got no more memory
//	crashed         PDFium ended in another way
//
// A file that cannot be read is no verdict on it: transient, connection. Neither is a context that ends: its error is
// returned plainly.
package pdf
