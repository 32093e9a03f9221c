// Package keyvalue holds the memory: what is settled, which sites exist, and which worker may act next.
//
// The [Ledger] is the bucket reports_ledger. Its entry <site>.<key> says that a report is done, with the
// result, and it is written once, by compare-and-set on the revision that was read before. That write
// is the commit of a report: of two workers with the same report one wins and the other is told
// [ErrConflict]. An entry is never deleted, which is why "done" is final and a stale "not found" does no
// harm: it only leads to a compare-and-set that fails.
//
//	reports_ledger  TWR-8842.628af88ec606...0024
//	{"state": "done", "site_id": "TWR-8842", "source_uri": "s3://reports/twr8842_q2.pdf",
//	 "result": {"pages": 12}, "attempts": 2, "worker": "host/4711",
//	 "commit": "REPORTS/1/2", "time": "2026-11-29T02:00:01.5Z"}
//
// [Sites] is the bucket reports_sites, the registry of known sites: site.<site> holds the version of the last
// import that named the site, meta.version the version that counts. An import writes its sites first and the
// marker last, so that one that is cut off makes no site unknown. Without a marker every site is known.
//
// [Turns] is the bucket reports_turns: what one worker of a fleet is to do at a time. A turn is taken by compare-and-set, at
// most once in an interval of the server's clock. "replay" is the turn of the scheduled replay, and upstream.<token> that of
// one upstream's letters, the token being the upstream written like a site. It keeps order, not safety: a worker that has lost its
// turn without knowing must do no harm.
//
//	reports_turns  upstream.https=3A=2F=2Fportal=2Eexample
//	{"holder": "host/4711", "pause": 120000000000, "over": true}
package keyvalue
