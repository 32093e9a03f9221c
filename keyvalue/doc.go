// Package keyvalue holds the memory: what is settled, and which sites exist.
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
package keyvalue
