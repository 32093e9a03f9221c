package report

import (
	"strings"
	"time"
)

// The headers of a message that Guyline has written: dead letters and requeued copies. On the publishers'
// queue they have no meaning and are not copied anywhere.
const (
	HeaderKey            = "Guyline-Key"
	HeaderClass          = "Guyline-Class"
	HeaderCode           = "Guyline-Code"
	HeaderReason         = "Guyline-Reason"
	HeaderAuditHash      = "Guyline-Audit-Hash"
	HeaderAttempts       = "Guyline-Attempts"
	HeaderSubject        = "Guyline-Subject"
	HeaderStream         = "Guyline-Stream"
	HeaderStreamSequence = "Guyline-Stream-Sequence"
	HeaderPublishedAt    = "Guyline-Published-At"
	HeaderDue            = "Guyline-Due"
	HeaderFirstFailedAt  = "Guyline-First-Failed-At"
	HeaderFailedAt       = "Guyline-Failed-At"
	HeaderReplays        = "Guyline-Replays"
	HeaderReplayOf       = "Guyline-Replay-Of"
	HeaderReopened       = "Guyline-Reopened"
	HeaderUpstream       = "Guyline-Upstream"
	HeaderParkedSince    = "Guyline-Parked-Since"
	HeaderSuspect        = "Guyline-Suspect"
	HeaderWorker         = "Guyline-Worker"
	HeaderVersion        = "Guyline-Version"
	HeadersDropped       = "Guyline-Headers-Dropped"
)

// Bounds of what goes into headers, in bytes.
const (
	MaxHeaderValue    = 256      // one of ours, except the reason
	MaxForeignHeaders = 16 << 10 // all of the publisher's together
)

// Class says how a report died.
type Class string

const (
	ClassPoison    Class = "poison"    // an error that no retry can heal
	ClassExhausted Class = "exhausted" // every attempt failed
	ClassAbandoned Class = "abandoned" // workers vanished with it until no delivery was left
)

// Foreign is the publisher's own headers that travel with a report: all but Nats-*, Guyline-*, Status and
// Description, in any case, and names that a client would refuse to send. If they have more than
// [MaxForeignHeaders] bytes they are all dropped, and their number is returned instead.
func Foreign(headers map[string][]string) (kept map[string][]string, dropped int) {
	kept = map[string][]string{}
	size := 0
	for name, values := range headers {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "nats-") || strings.HasPrefix(lower, "guyline-") ||
			lower == "status" || lower == "description" || !sendable(name) {
			continue
		}
		kept[name] = values
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	if size > MaxForeignHeaders {
		return map[string][]string{}, len(kept)
	}
	return kept, 0
}

// sendable reports whether nats.go sends a header of this name (v1.55.0: a token of RFC 9110).
func sendable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"()/,:;<=>?@[\\]{}", r)
	})
}

// FormatTime and ParseTime are the form of times in headers: RFC 3339 with nanoseconds, in UTC. The
// zero time is "".
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// ParseTime reads what [FormatTime] wrote; anything else is the zero time.
func ParseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
