// Package audit holds the trail: an append-only record of failed attempts, deaths and what operators
// did, in the stream REPORTS_AUDIT.
//
// An [Event] is one JSON object on reports.audit.<site>.<key>:
//
//	Nats-Msg-Id: death:068af75aea2c...5899:REPORTS:2:2026-11-29T02:00:00.123Z
//	{"time": "2026-11-29T02:00:01.5Z", "kind": "death", "key": "068af75aea2c...5899", "site_id": "TWR-9017",
//	 "worker": "host/4711", "attempt": 1, "class": "poison", "code": "malformed-pdf",
//	 "reason": "unparseable structure in ...", "hash": "b9e1641245f0...f6fa", "stream": "REPORTS", "sequence": 2,
//	 "published": "2026-11-29T02:00:00.123Z", "payload_sha256": "a0499d8a9971...8e6a"}
//
// The stream refuses to delete or purge, and refuses new events when it is full rather than dropping old
// ones. An event's Nats-Msg-Id names the fact it records. A crash can write a fact twice, so [Trail.Log] and
// [Trail.All] fold events that have the same name and the same hash.
package audit
