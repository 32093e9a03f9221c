package proof

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/report"
)

// readEvent reads an event and checks what can be seen in it alone: an empty problem says that it is well.
func readEvent(subject string, body []byte) (e audit.Event, problem string) {
	if err := json.Unmarshal(body, &e); err != nil || e.Kind == "" {
		return e, "it is not an event"
	}
	_, isKey := parseRaw(e.Key)
	switch {
	case !isKey:
		return e, "it names no report: its key is not 64 hex digits"
	case subject != "reports.audit."+string(report.NewToken(e.SiteID))+"."+string(e.Key):
		return e, "it lies under the name of another site or report"
	case e.Kind == audit.Death && e.Hash != report.AuditHash(e.Key, e.Reason):
		return e, "its audit hash does not fit its reason"
	case !isSum(e.Payload) || !isSum(e.NewPayload):
		return e, "a payload hash in it is not 64 hex digits"
	}
	return e, ""
}

func isSum(s string) bool {
	_, err := hex.DecodeString(s)
	return s == "" || err == nil && len(s) == 64
}

// check checks an event, also against the ones before it.
func (s *survey) check(m *jetstream.RawStreamMsg) {
	e, problem := readEvent(m.Subject, m.Data)
	another := s.dead.Add(e)
	if problem == "" {
		problem = another
	}
	if problem == "" {
		problem = s.compare(e, m.Time)
	}
	if problem != "" {
		key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		s.found(Finding{What: InTrail, Sequence: m.Sequence, Key: report.Key(key), Problem: problem})
	}
}

func (s *survey) compare(e audit.Event, at time.Time) string {
	death, exact := deathOf(e, ""), deathOf(e, e.Payload)
	untold, died := s.deaths[death]
	switch e.Kind {
	case audit.Death:
		s.deaths[exact] = true
		s.deaths[death] = untold || e.Payload == ""
	case audit.Replay, audit.Discard, audit.Repair, audit.Quarantine:
		if !died {
			return "it is about a death that the trail has not recorded"
		}
	case audit.Reprocess:
		if err := s.book.reopened(e.Key, e.Revision, e.Settled, at); err != nil {
			return err.Error()
		}
	case audit.Restart:
		s.restarts = append(s.restarts, e)
	}
	// A letter is closed as recovered also when its burial was cut short, so its death may be missing, but not be another one.
	if e.Kind != audit.Death && died && !untold && e.Payload != "" && !s.deaths[exact] {
		return "it is about another payload than the one that died"
	}
	return ""
}

// deathOf names a death, or an act about one, in 32 bytes. A report may die of the same reason with several payloads, and an act on the letter
// of one may be recorded after the death of the next.
func deathOf(e audit.Event, payload string) tlog.Hash {
	return tlog.RecordHash([]byte(string(e.Key) + "\n" + e.Hash + "\n" + payload))
}
