// Package extract does the work on one report: from a source URI to bytes, from bytes to what the PDF says.
//
// [Open] prepares an [Extractor] before any report is taken: it opens the sources and starts the first extraction
// process, which compiles the PDF engine, or loads it compiled from the cache directory. [Extractor.Extract] then fits
// consumer.Handler. Its result is [Facts], one JSON object:
//
//	{"version": 1, "site_id": "TWR-8842", "pages": 12, "bytes": 48123, "sha256": "9f86d0...",
//	 "pdf_version": "1.7", "title": "Quarterly inspection", "producer": "LibreOffice 7.4",
//	 "created": "2026-04-01T08:30:00Z", "encrypted": false, "needs_ocr": false,
//	 "text_lengths": [1874, 2310, 512], "first_page_text": "Tower TWR-8842, second quarter ..."}
//
// # The path of a report
//
// Package source fetches the file: opened in place below the file root, or downloaded to a temporary file. Its size and
// SHA-256 are known then. Three things are decided on the bytes before anything parses them. "%PDF-" must occur in the
// first 1,024: whatever a server called the file, a login page is not a PDF, and the reason says what came instead. The
// SHA-256 is compared with the event's. And the last 1,024 bytes are searched for "%%EOF".
//
// Package child then passes the open file to one of its processes, in which package pdf asks PDFium. This process never
// parses a byte of it, nor reads it into memory. With [Config.Command] package command runs an extractor of the
// operator's own instead, whose result is taken as it is; its files need not be PDFs.
//
//	source    URI -> open file, its size and SHA-256
//	pdf       open file -> what PDFium says; runs in the process
//	child     the processes: a pool, one per CPU; what their deaths mean
//	limits    what a process may use, and that it does not outlive the worker
//	command   an extractor in any language
//
// # Broken or not yet whole
//
// A half-uploaded file looks like a corrupt one, so the difference is looked for before a report is given up. These are
// transient (still-uploading): what package source finds still growing, a file that changed while it was inspected,
// and a PDF that is rejected as malformed or without pages, or whose SHA-256 is wrong, while it has no "%%EOF"
// near its end. Everything else that is rejected is poison at once, with a code of package report that says why.
//
// # Limits
//
// Downloads and inspections have separate limits: as many files are inspected at once as there are CPUs, and further
// reports wait for a process as long as their context lasts, while others download. A context that ends, while
// waiting or working, is no verdict: its error is returned plainly. Only a deadline that passes when the file has been fetched
// is told, as transient (timeout): the reason says how much of the time went by waiting, as the source is not to blame.
//
// # In a program of your own
//
// The extraction processes are the running program, started with the argument "extract-child". Call [Child] first
// thing in main when it is there:
//
//	if len(os.Args) > 1 && os.Args[1] == "extract-child" {
//		if err := extract.Child(context.Background(), os.Args[2:]); err != nil {
//			log.Fatal(err)
//		}
//		return
//	}
package extract
