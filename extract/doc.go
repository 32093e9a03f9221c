// Package extract does the work on one report: from a source URI to bytes, from bytes to what the PDF says.
//
// [Open] prepares an [Extractor] before any report is taken: it opens the file root and compiles the PDF
// engine, or loads it compiled from the cache directory. [Extractor.Extract] then fits consumer.Handler. Its
// result is [Facts], one JSON object:
//
//	{"version": 1, "site_id": "TWR-8842", "pages": 12, "bytes": 48123, "sha256": "9f86d0...",
//	 "pdf_version": "1.7", "title": "Quarterly inspection", "producer": "LibreOffice 7.4",
//	 "created": "2026-04-01T08:30:00Z"}
//
// # The path of a report
//
// A source URI is first turned into a path below the file root; nothing outside it is ever opened, however it
// is spelled and whatever symbolic links say, since every open goes through an [os.Root]. Plain paths and file:
// URIs are understood; a scheme without a fetcher is poison. The file is opened without waiting (a fifo must
// not hold a worker), and only a regular file of at most MaxBytes is read on.
//
// Three things are decided on the bytes before the engine sees them. "%PDF-" must occur in the first 1,024
// bytes; whatever a server called the file, a login page is not a PDF. The SHA-256 is computed in one streamed
// pass and compared with the event's. And the last 1,024 bytes are searched for "%%EOF".
//
// The engine is PDFium, compiled to WebAssembly and run by wazero in this process: no cgo, no file system, no
// network, at most 128 MiB of memory for one file. Each file gets a new instance that is thrown away
// afterwards, so a file can spoil nothing but its own inspection. A file is a report if PDFium opens it, counts at
// least one page and can load the first: a page count alone may be a claim that the file cannot keep.
//
// # Broken or not yet whole
//
// A half-uploaded file looks like a corrupt one, so the difference is looked for before a report is given up.
// These are transient (still-uploading): an empty file, a name that ends in .part, .filepart or .tmp, a file
// whose size or modification time changed while it was read, and a file that PDFium rejects (or whose SHA-256
// is wrong) while it has no "%%EOF" near its end. Everything else that PDFium rejects is poison at once, with a
// code of package report that says why.
//
// # Limits
//
// As many files are inspected at once as there are CPUs; further calls wait their turn as long as their
// context lasts. An inspection that takes longer than 20 seconds is killed (killed-time). Its memory is bounded
// too (killed-memory); an engine that dies for another reason is crashed. All three are poison: the
// same bytes would do it again. A context that ends, while waiting or working, is no verdict: its error is
// returned plainly. Files are never read into memory whole.
package extract
