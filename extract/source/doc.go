// Package source fetches the file that a report's source URI names, and judges why it cannot.
//
// [Open] prepares [Sources] from a [Config]; [Sources.Fetch] turns a URI into a [File], open, whole, measured and hashed;
// [File.Close] lets go of it. Fetch tries once. Trying again, and when, is the business of whoever redelivers the
// report: an error says by its kind, code and delay what an expert would do.
//
// # URIs
//
//	q2/a.pdf, /srv/reports/a.pdf      a path, as written; relative ones are below the file root
//	file:///srv/reports/a%20b.pdf     the same, percent-decoded; no host but localhost
//	https://host[:port]/a.pdf?sig=x   also http; fetched as written
//	s3://bucket/q2/a b.pdf            an object's key, as written: nothing is decoded, and ? and # belong to it
//	sftp://host[:port]/q2/a%20b.pdf   an absolute path on the host, percent-decoded
//
// A URI comes from a stranger and goes into logs. One with a user name or password is poison (credentials-in-uri),
// and no error of this package quotes what stands before the host or in the query. A name that ends in .part,
// .filepart or .tmp is an upload under way, wherever it is.
//
// # What a stranger may reach
//
// Paths: nothing outside the file root, however it is spelled and whatever symbolic links say, since every open goes
// through an [os.Root]. Only a regular file is read, and opened without waiting: a fifo must not hold a worker.
//
// Hosts of http, https and sftp: with no Config.AllowHosts, every host at a public address. With some, only those:
//
//	portal.example         the host, on any port
//	portal.example:8443    the host on this port
//	*.firm.example         every host below firm.example, not itself
//	*                      besides those listed, every host at a public address
//
// A listed host may be anywhere. Any other one is refused (refused-address) at a loopback, link-local, private,
// carrier-grade, multicast, reserved or cloud-internal address. Addresses are looked at when they are connected to, after the name was
// resolved, so a name that resolves to something else the second time gains nothing. Redirects, at most 10, are looked
// at in the same way, may not lead from https to http, and take neither credentials nor Referer along. Proxies
// named by the environment are not used: behind one, the worker would not see where it connects. The S3 endpoint
// is the operator's own choice and may be anywhere; its redirects are not followed.
//
// # Downloads
//
// A download goes through a buffer of 128 KiB into a temporary file, hashed on the way; memory does not grow with it. More than
// Config.MaxBytes is too-large, whether announced or not; fewer bytes than announced are a short-read. The file
// loses its name as soon as it is open, so it is gone when it is closed or when the process dies; a program that needs a
// path has /dev/fd. Where an open file cannot lose its name (Windows), Close removes it, and Open what killed
// processes have left. Bodies are taken as they are stored: nothing is decompressed.
//
// A source that sends nothing for 30 seconds, from the connection to the last byte, is given up (timeout). At most
// Config.HostConcurrency fetches run against one host; further ones wait as long as their context lasts, and those
// of other hosts do not wait for them. Connections are kept for the next fetch for a minute.
//
// What a file is, is decided elsewhere and by its bytes. [File.Came] keeps what the source called it.
//
// # Logging in
//
// http and https: not at all; a link may be signed. s3: with the credentials of the usual AWS variables
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or files (~/.aws/credentials and config,
// AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE, AWS_PROFILE), else anonymously; after they were refused they are read again. sftp:
// with the one user of the configuration by key, agent or password, but only after the host has shown the key that the known
// hosts name: a stranger's host sees no login. The known hosts are read for each connection, so adding one needs no restart.
//
// # Judgement
//
// A failure is first given its own words: an HTTP status, an S3 error code (also one in the body of a 200), an SFTP
// status, an error number, or one of our faults. table, in table.go, then says kind, code, delay and advice for each; it
// is all of the judgement, in one place. Its rules:
//
//   - What waiting may heal is transient: with the usual backoff, or after 30 seconds if an upload is under way, a minute
//     if a remote file is not there (the event may be earlier than the file), an hour if it is in an archive. Retry-After,
//     in seconds or as a date, up to a day, takes the place of the delay where a source throttles (429, 503,
//     SlowDown and its like).
//   - What is wrong with this report alone is poison.
//   - What is wrong with the worker's own configuration or a whole host is hold: credentials, bucket, certificate,
//     host key, a name that does not resolve. A name is held at the first answer, not at the second: it concerns all reports
//     of the host, and the cost of a mistake is one long delay. A signed link that S3 refuses is its publisher's fault, so
//     it is poison where the worker's own signature would be hold.
//   - A context that ends is no verdict: its error is returned plainly.
//   - An operating system's error that the table does not name has no kind, and so is poison, unclassified. What
//     happens on the network and is not named is transient, connection.
package source
