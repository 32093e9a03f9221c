package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streamChecks is every trap that the settings of a stream can have, stateChecks what else can be wrong with it.
var streamChecks = []func(Stream) []Finding{
	sealed, storage, retention, persistMode, subjects, foreign, noAck,
	discard, perSubject, age, size, duplicates, rollup, schedules, life, denials, direct, readers, replicas,
}

var stateChecks = []func(Stream) []Finding{peers, damage, full}

// forGood is what to do about a setting that no update can change.
const forGood = "it cannot be changed: save what it holds (`nats stream backup`), delete it, and run `guyline setup`"

func missingStream(s Stream) []Finding {
	follows := map[role]string{queue: "publishers are refused", requeue: "nothing can be handed back, replayed or parked"}[s.role]
	if follows == "" {
		follows = "workers do not start"
	}
	if s.Holder != "" {
		return []Finding{byHand("missing", s.Want.Name, "the stream does not exist, and its subjects belong to the stream "+s.Holder, follows,
			"take the subjects from "+s.Holder+", then run `guyline setup`")}
	}
	return []Finding{repaired("missing", s.Want.Name, "the stream does not exist", follows)}
}

func sealed(s Stream) []Finding {
	if !s.Have.Config.Sealed {
		return nil
	}
	return []Finding{byHand("sealed", s.Want.Name, "it is sealed", "it takes and removes nothing more", forGood)}
}

func storage(s Stream) []Finding {
	if s.Have.Config.Storage == s.Want.Storage {
		return nil
	}
	return []Finding{byHand("storage", s.Want.Name, "it is stored in memory", "when its servers stop, "+loses[s.role], forGood)}
}

func retention(s Stream) []Finding {
	have, want := s.Have.Config.Retention, s.Want.Retention
	switch {
	case have == want:
		return nil
	case want == jetstream.WorkQueuePolicy:
		return []Finding{byHand("retention", s.Want.Name, "its retention is "+lower(have)+", not workqueue", "reports that are settled stay in it, and are worked again by the next consumer", forGood)}
	case have == jetstream.WorkQueuePolicy:
		return []Finding{byHand("retention", s.Want.Name, "its retention is workqueue, not limits", "whoever reads it removes it", forGood)}
	}
	return []Finding{repaired("retention", s.Want.Name, "its retention is interest, not limits", "what nobody waits for is dropped: "+loses[s.role])}
}

func persistMode(s Stream) []Finding {
	if s.Have.Config.PersistMode == jetstream.DefaultPersistMode {
		return nil
	}
	return []Finding{byHand("persist-mode", s.Want.Name, "its persist mode is async", "the server acknowledges before it writes: a crash loses what was acknowledged", forGood)}
}

func subjects(s Stream) []Finding {
	have := s.Have.Config.Subjects
	for _, want := range s.Want.Subjects {
		if !slices.Contains(have, want) && s.Have.Config.Mirror == nil {
			return []Finding{repaired("subjects", s.Want.Name, "it does not take "+want, "what is published there is refused")}
		}
	}
	if len(have) > len(s.Want.Subjects) {
		return []Finding{repaired("subjects", s.Want.Name, "it takes other subjects than its own: "+strings.Join(have, ", "), "it holds what is none of ours")}
	}
	return nil
}

// foreign finds what is put into a stream by the server, past every fence, or is changed on its way in.
func foreign(s Stream) (findings []Finding) {
	have := s.Have.Config
	if have.Mirror != nil {
		findings = append(findings, repaired("mirror", s.Want.Name, "it is a mirror of "+have.Mirror.Name, "it takes no message of ours"))
	}
	if len(have.Sources) > 0 {
		findings = append(findings, repaired("sources", s.Want.Name, "it copies from other streams, such as "+have.Sources[0].Name, "messages come in past every check"))
	}
	if have.SubjectTransform != nil {
		findings = append(findings, repaired("subject-transform", s.Want.Name, "it changes subjects", "what was published is not found again"))
	}
	if have.AllowMsgCounter {
		findings = append(findings, byHand("counter", s.Want.Name, "it is a counter", "it refuses every message of ours", forGood))
	}
	return findings
}

func noAck(s Stream) []Finding {
	if !s.Have.Config.NoAck {
		return nil
	}
	return []Finding{repaired("no-ack", s.Want.Name, "it acknowledges nothing", "every publication seems to have failed")}
}

func duplicates(s Stream) []Finding {
	have, want := s.Have.Config.Duplicates, s.Want.Duplicates
	if s.role != queue || have == want {
		return nil
	}
	follows := "a publisher that repeats itself after that is worked again, and found in the ledger only then"
	if have > want {
		follows = "the server remembers publications for longer than it needs memory for"
	}
	return []Finding{repaired("duplicates", s.Want.Name, fmt.Sprintf("its duplicate window is %v, but GUYLINE_DUPLICATES is %v", have, want), follows)}
}

func rollup(s Stream) []Finding {
	have, want := s.Have.Config.AllowRollup, s.Want.AllowRollup
	switch {
	case have == want || have && s.Have.Config.AllowMsgSchedules: // schedules tells of that
		return nil
	case have:
		return []Finding{repaired("rollup", s.Want.Name, "it allows rollups", "one message with Nats-Rollup: all erases all that it holds")}
	}
	return []Finding{repaired("rollup", s.Want.Name, "it allows no rollups", "other tools cannot purge a key")}
}

func schedules(s Stream) []Finding {
	have, want := s.Have.Config.AllowMsgSchedules, s.Want.AllowMsgSchedules
	switch {
	case have == want:
		return nil
	case have:
		return []Finding{byHand("schedules", s.Want.Name, "it takes schedules, and with them rollups", "one message with Nats-Rollup: all erases all that it holds", forGood)}
	}
	return []Finding{repaired("schedules", s.Want.Name, "it takes no schedules", "reports cannot be parked while their upstream is down")}
}

// life finds that whoever publishes may say how long the message lives.
func life(s Stream) []Finding {
	if !s.Have.Config.AllowMsgTTL || s.role >= ledger {
		return nil
	}
	return []Finding{byHand("message-ttl", s.Want.Name, "messages may have a Nats-TTL", "whoever publishes can make them vanish: "+loses[s.role], forGood)}
}

func denials(s Stream) (findings []Finding) {
	have, want := s.Have.Config, s.Want
	if want.DenyDelete && !have.DenyDelete {
		findings = append(findings, repaired("deny-delete", s.Want.Name, "messages can be deleted", "it is not append-only"))
	}
	if want.DenyPurge && !have.DenyPurge {
		findings = append(findings, repaired("deny-purge", s.Want.Name, "it can be purged", "it is not append-only"))
	}
	if s.role <= letters && have.DenyDelete && !have.Sealed {
		findings = append(findings, byHand("deny-delete", s.Want.Name, "messages cannot be deleted", "what is settled, replayed or discarded stays in it", forGood))
	}
	return findings
}

func direct(s Stream) []Finding {
	if s.Have.Config.AllowDirect || s.Have.Config.Mirror != nil {
		return nil
	}
	return []Finding{repaired("direct", s.Want.Name, "it allows no direct reads", "reconcile, show, status and publish cannot read many messages at once, and fail")}
}

func readers(s Stream) (findings []Finding) {
	have := s.Have.Config
	if have.MaxConsumers > 0 && s.role > requeue {
		findings = append(findings, repaired("max-consumers", s.Want.Name, fmt.Sprintf("it allows %d consumers", have.MaxConsumers), "who reads it, for status, lists or proofs, is refused when they are taken"))
	}
	if have.ConsumerLimits != (jetstream.StreamConsumerLimits{}) {
		findings = append(findings, repaired("consumer-limits", s.Want.Name, "it limits its consumers", "their settings are not those of the workers"))
	}
	return findings
}

// damage finds what a server has found missing when it started.
func damage(s Stream) []Finding {
	if lost := s.Have.State.Lost; lost != nil && len(lost.Msgs) > 0 {
		return []Finding{person("damage", s.Want.Name, plural(uint64(len(lost.Msgs)), "message was damaged on the disk", "messages were damaged on the disk"), loses[s.role],
			"`guyline reconcile` with your lists tells which reports; restore a backup")}
	}
	return nil
}

func lower(v fmt.Stringer) string { return strings.ToLower(v.String()) }

func days(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}
