package audit

import (
	"fmt"
	"time"

	"github.com/guyline/guyline/report"
)

// Kind says what happened.
type Kind string

const (
	AttemptFailed Kind = "attempt_failed" // an attempt failed and another will follow
	Parked        Kind = "parked"         // an attempt failed as the upstream is down; the report waits aside, and no attempt is spent
	Suspect       Kind = "suspect"        // a delivery ended without a verdict, as if it had taken its worker down; the report is tried alone
	Death         Kind = "death"          // a dead letter was put
	Replay        Kind = "replay"         // an operator sent a letter back to the queue
	Discard       Kind = "discard"        // an operator gave a report up
	Recovered     Kind = "recovered"      // a letter was closed because its report had landed
	Repair        Kind = "repair"         // an operator gave a report up for a corrected one, under a new key
	Quarantine    Kind = "quarantine"     // a letter has been replayed so often that only a person may replay it again
	Reprocess     Kind = "reprocess"      // an operator had a settled report worked again
	Restart       Kind = "restart"        // an operator took over a trail that an earlier checkpoint does not fit
)

// Event is one entry of the trail. Fields that do not apply are empty.
type Event struct {
	Time     time.Time    `json:"time"`
	Kind     Kind         `json:"kind"`
	Key      report.Key   `json:"key"`
	SiteID   string       `json:"site_id,omitempty"`
	Worker   string       `json:"worker,omitempty"`
	Actor    string       `json:"actor,omitempty"`   // the person behind an operator's act
	Attempt  int          `json:"attempt,omitempty"` // of a death: how many were spent
	Class    report.Class `json:"class,omitempty"`
	Code     report.Code  `json:"code,omitempty"`
	Reason   string       `json:"reason,omitempty"` // clean
	Hash     string       `json:"hash,omitempty"`   // of a death: the audit hash
	Delay    string       `json:"delay,omitempty"`  // until the next attempt, like "400ms"
	Stream   string       `json:"stream,omitempty"` // the message it is about
	Sequence uint64       `json:"sequence,omitempty"`
	Letter   uint64       `json:"letter,omitempty"` // of an operator's act: sequence of the dead letter
	Delivery uint64       `json:"delivery,omitempty"`
	// Published is when the publisher handed the report over; of a death. With Stream and Sequence it names the message for
	// good, as sequences start anew when a stream is made anew.
	Published time.Time `json:"published,omitzero"`
	// Replays is how often the report had been replayed; of a death in the requeue stream. A replay keeps the time of publication, and in a
	// stream that was made anew it may get the place of an earlier one. Events that are older than the field have none.
	Replays int `json:"replays,omitempty"`

	Payload    string     `json:"payload_sha256,omitempty"`     // of the report's payload, see report.PayloadHash
	NewKey     report.Key `json:"new_key,omitempty"`            // of a repair: the corrected report
	NewPayload string     `json:"new_payload_sha256,omitempty"` // and its payload
	Revision   uint64     `json:"revision,omitempty"`           // of a reprocess: the ledger entry that it reopened
	Settled    []byte     `json:"settled,omitempty"`            // and that entry, as it was stored
	Checkpoint string     `json:"checkpoint,omitempty"`         // of a restart: the newest checkpoint that was given up
	GivenUp    []string   `json:"given_up_sha256,omitempty"`    // and all of them, each by the SHA-256 of its note

	// Corrects marks a death that replaces an `abandoned` one of the same message by a real verdict.
	Corrects bool `json:"corrects,omitempty"`
}

// attempt reports whether the event is one of an attempt that failed, and changed no fate.
func (e Event) attempt() bool {
	return e.Kind == AttemptFailed || e.Kind == Parked || e.Kind == Suspect
}

// Fails reports whether the event says that a delivery of a message ended with a failed attempt.
func (e Event) Fails(stream string, sequence, delivery uint64) bool {
	return (e.Kind == AttemptFailed || e.Kind == Parked) && e.Stream == stream && e.Sequence == sequence && e.Delivery == delivery
}

// ID names the fact that the event records; it is its Nats-Msg-Id.
func (e Event) ID() string {
	switch e.Kind {
	case AttemptFailed, Parked:
		return fmt.Sprintf("attempt:%s:%s:%d:%d", e.Key, e.Stream, e.Sequence, e.Delivery)
	case Suspect:
		return fmt.Sprintf("suspect:%s:%s:%d:%d", e.Key, e.Stream, e.Sequence, e.Delivery)
	case Death:
		id := fmt.Sprintf("death:%s:%s:%d", e.Key, e.Stream, e.Sequence)
		if !e.Published.IsZero() {
			id += ":" + report.FormatTime(e.Published)
		}
		if e.Replays > 0 {
			id += fmt.Sprintf(":replay-%d", e.Replays)
		}
		if e.Corrects {
			id += ":corrected"
		}
		return id
	case Repair: // two people can repair one letter in two ways, and both must be on record
		return fmt.Sprintf("repair:%s:%d:%s", e.Key, e.Letter, e.NewKey)
	case Reprocess:
		return fmt.Sprintf("reprocess:%s:%d:%s", e.Key, e.Revision, e.Actor) // two people may say so at once
	case Restart:
		return "restart:" + report.FormatTime(e.Time)
	}
	return fmt.Sprintf("%s:%s:%d", e.Kind, e.Key, e.Letter)
}
