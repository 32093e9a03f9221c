package doctor

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/keyvalue"
)

func discard(s Stream) []Finding {
	if s.Want.Discard == s.Have.Config.Discard || s.Want.Discard == jetstream.DiscardOld {
		return nil
	}
	return []Finding{repaired("discard", s.Want.Name, "it discards old messages when it is full", loses[s.role])}
}

func perSubject(s Stream) (findings []Finding) {
	have, want := max(0, s.Have.Config.MaxMsgsPerSubject), max(0, s.Want.MaxMsgsPerSubject)
	switch {
	case s.Have.Config.DiscardNewPerSubject:
		findings = append(findings, repaired("per-subject", s.Want.Name, "it refuses a second message on a subject", "a newer one is refused for ever"))
	case have == want:
	case want == 0:
		findings = append(findings, repaired("per-subject", s.Want.Name, fmt.Sprintf("it keeps %d messages on a subject", have), loses[s.role]))
	default:
		findings = append(findings, repaired("per-subject", s.Want.Name, "it keeps more than the newest message on a subject", "what was replaced is counted and listed too"))
	}
	return findings
}

// age finds what a stream drops by itself. On the queues that is ours to say, elsewhere whoever runs the server may want it.
func age(s Stream) []Finding {
	have := s.Have.Config.MaxAge
	what := "it drops messages after " + days(have)
	switch {
	case s.aged:
		return ledgerAge(s)
	case have <= 0:
		return nil
	case s.role <= requeue:
		return []Finding{repaired("max-age", s.Want.Name, what, loses[s.role])}
	case s.role == turns && have >= keyvalue.LongestTurn:
		return nil
	case s.role == turns:
		return []Finding{byHand("max-age", s.Want.Name, what, loses[s.role], fmt.Sprintf("nats stream edit %s --max-age=%v", s.Want.Name, s.Want.MaxAge))}
	}
	keep := "nats stream edit " + s.Want.Name + " --max-age=0"
	if s.role == ledger {
		keep += "; or say with GUYLINE_LEDGER_TTL that it is meant"
	}
	return []Finding{byHand("max-age", s.Want.Name, what, loses[s.role], "setup leaves the limits of whoever runs the server: "+keep)}
}

// ledgerAge finds that the ledger forgets sooner or later than GUYLINE_LEDGER_TTL says.
func ledgerAge(s Stream) []Finding {
	have, want := s.Have.Config.MaxAge, s.Want.MaxAge
	forgets := func(after time.Duration) string {
		if after <= 0 {
			return "never"
		}
		return "after " + days(after)
	}
	switch {
	case have != want && (want <= 0 || have > 0 && have < want):
		return []Finding{repaired("ledger-ttl", s.Want.Name, "it forgets settled reports "+forgets(have)+", but GUYLINE_LEDGER_TTL says "+forgets(want), loses[ledger])}
	case have != want:
		return []Finding{repaired("ledger-ttl", s.Want.Name, "it forgets settled reports "+forgets(have)+", but GUYLINE_LEDGER_TTL says "+forgets(want), "it needs memory and disk for them")}
	case have > 0:
		return []Finding{note("ledger-ttl", s.Want.Name, "it forgets settled reports "+forgets(have)+", as GUYLINE_LEDGER_TTL says", "a report that is published again later is worked again", "")}
	}
	return nil
}

// size finds limits that refuse or, on the requeue stream, drop.
func size(s Stream) (findings []Finding) {
	have := s.Have.Config
	if want, is := max(0, s.Want.MaxMsgSize), max(0, have.MaxMsgSize); is != want {
		follows := "what is larger is refused"
		if is == 0 {
			follows = "a report may be too large for a dead letter"
		}
		findings = append(findings, repaired("message-size", s.Want.Name, "its largest message is "+bytesOr(int64(is), "unlimited")+", not "+bytesOr(int64(want), "unlimited"), follows))
	}
	switch s.role {
	case queue:
		if have.MaxMsgs > 0 {
			findings = append(findings, repaired("max-msgs", s.Want.Name, fmt.Sprintf("it takes %d reports at most", have.MaxMsgs), "publishers are refused before GUYLINE_QUEUE_BYTES is reached"))
		}
		if have.MaxBytes != s.Want.MaxBytes {
			findings = append(findings, repaired("max-bytes", s.Want.Name, "it holds "+bytesOr(have.MaxBytes, "any number of bytes")+", but GUYLINE_QUEUE_BYTES is "+bytesOr(s.Want.MaxBytes, "any"),
				"publishers are refused sooner or later than it says"))
		}
	case requeue:
		if have.MaxMsgs > 0 || have.MaxBytes > 0 {
			findings = append(findings, repaired("limits", s.Want.Name, "it has a limit, and cannot refuse", "when that is reached, "+loses[s.role]))
		}
	}
	return findings
}

// How full something may be before it is worth a note, and before a person is needed.
const (
	filling = 0.7
	nearly  = 0.9
)

// full finds what comes near a limit. A stream that is full refuses, and drops nothing.
func full(s Stream) []Finding {
	st, cfg := s.Have.State, s.Have.Config
	if cfg.Discard == jetstream.DiscardOld { // discard, or size, tells of that
		return nil
	}
	follows := "when it is full, intake stops until there is room"
	do := "raise the limit (nats stream edit " + s.Want.Name + "), or make room"
	switch s.role {
	case queue:
		follows, do = "when it is full, publishers are refused", "start more workers (`guyline run`), or raise GUYLINE_QUEUE_BYTES and run `guyline setup`"
	case letters:
		do = "replay or discard letters (`guyline dlq ls --group`), or raise the limit (nats stream edit " + s.Want.Name + ")"
	}
	return append(fill("full", s.Want.Name, "bytes", float64(st.Bytes), float64(cfg.MaxBytes), follows, do),
		fill("full", s.Want.Name, "messages", float64(st.Msgs), float64(cfg.MaxMsgs), follows, do)...)
}

func fill(check, where, of string, is, most float64, follows, do string) []Finding {
	if most <= 0 || is < filling*most {
		return nil
	}
	what := fmt.Sprintf("it is %.0f %% full, by %s", 100*is/most, of)
	if is < nearly*most {
		return []Finding{note(check, where, what, follows, do)}
	}
	return []Finding{person(check, where, what, follows, do)}
}

// bytesOr writes a number of bytes, or a word if there is no limit.
func bytesOr(n int64, none string) string {
	if n <= 0 {
		return none
	}
	return humanize.IBytes(uint64(n))
}
