// Package report holds the words that every other room of Guyline speaks: what a publisher
// hands over, by which name a report is known, what its work yields, and how work fails.
// It imports the standard library only and talks to no server.
//
// An [Event] is what a publisher sends, one JSON object per inspection report:
//
//	{"site_id": "TWR-8842", "source_uri": "s3://reports/twr8842_q2.pdf",
//	 "due": "2026-12-01T00:00:00Z", "sha256": "9f86d0...", "metadata": {"firm": "Acme"}}
//
// [Decode] is strict about what could be misread (a repeated name, a name in another case,
// invalid UTF-8) and indifferent to what it does not know: unknown fields are ignored here and
// travel on in the untouched payload. [Fields] is as strict about any other object. [ReadList] reads many events from
// JSON lines or from CSV, whose rows are one line each ([Table]).
//
// A [Key] names a report for ever: the hex SHA-256 of site_id + ":" + source_uri. It is the same for
// every retry, replay and publication, because it depends on identifiers, never on content. A [Token] is
// a site in a form that fits a NATS subject.
//
// Work ends in a [Result], one JSON object, or in an error made by [Transient], [RetryAfter],
// [Poison] or [Hold], each with a [Code] that says in one word what is wrong. [Classify] reads any
// error. [Backoff] says when to try again. [Clean] makes an error's text fit to be stored, hashed
// and shown: the result is the reason that [AuditHash] seals.
package report
