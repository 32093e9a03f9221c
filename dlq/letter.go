package dlq

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// Letter is a dead report and why it is dead.
type Letter struct {
	Sequence      uint64 // in REPORTS_DLQ; 0 before it is put
	Key           report.Key
	Site          report.Token // report.NoSite if the event cannot be read
	Class         report.Class
	Code          report.Code
	Reason        string     // clean
	Hash          string     // of the reason, see report.AuditHash
	Attempts      int        // spent in this pass
	Subject       string     // of the message that died
	Source        stream.Ref // the message that died; for a handed-back copy the one it stands for
	PublishedAt   time.Time
	Due           time.Time // zero if there is no deadline
	FirstFailedAt time.Time
	FailedAt      time.Time
	Replays       int
	Reopened      uint64      // ledger revision, while it is being reprocessed
	Upstream      string      // scheme://host of the source; empty if it has none
	Worker        string      // that buried it
	Version       string      // of that worker
	Dropped       int         // how many headers of the publisher were too much
	Foreign       nats.Header // the publisher's own headers
	Body          []byte      // the payload; nil in lists
}

// SiteID is the site as the publisher wrote it; empty if the event cannot be read.
func (l Letter) SiteID() string {
	site, _ := l.Site.Site()
	return site
}

// Stands reports whether the letter is about this very message: same key, place and time of publication. A replay keeps that time, and
// in a requeue stream that was made anew it may get the place of the message that died; but it has been replayed more often than that.
func (l Letter) Stands(m stream.Message) bool {
	return l.Key == m.Key && l.Source == m.Identity && l.PublishedAt.Equal(m.PublishedAt) && l.Replays >= m.Carried.Replays
}

// LocalFiles is the upstream of everything that has no host.
const LocalFiles = "file"

// Upstream is scheme://host of a source URI, or [LocalFiles] for a path.
func Upstream(uri string) string {
	if plain, ok := plainUpstream(uri); ok {
		return plain
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return LocalFiles
	}
	return u.Scheme + "://" + u.Host
}

// plainUpstream is [Upstream] of what needs no parser, which is almost every URI: every report's is asked for.
func plainUpstream(uri string) (string, bool) {
	scheme, rest, ok := strings.Cut(uri, "://")
	host, _, _ := strings.Cut(rest, "/")
	if !ok || scheme == "" || host == "" {
		return "", false
	}
	for i := range len(uri) {
		switch c := uri[i]; {
		case i < len(scheme):
			ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' && i > 0)
		case i < len(scheme)+len("://"):
		case i < len(scheme)+len("://")+len(host):
			ok = ok && ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-')
		default:
			ok = ok && c > ' ' && c < 0x7f && c != '%'
		}
	}
	return uri[:len(scheme)+len("://")+len(host)], ok
}

func (l Letter) header() nats.Header {
	kept, dropped := report.Foreign(l.Foreign)
	h := nats.Header(kept)
	put := func(name, value string) {
		if value = report.Line(value, report.MaxHeaderValue); value != "" {
			h.Set(name, value)
		}
	}
	number := func(name string, n uint64) {
		if n > 0 {
			h.Set(name, strconv.FormatUint(n, 10))
		}
	}
	put(report.HeaderKey, string(l.Key))
	put(report.HeaderClass, string(l.Class))
	put(report.HeaderCode, string(l.Code))
	h.Set(report.HeaderReason, l.Reason)
	put(report.HeaderAuditHash, l.Hash)
	h.Set(report.HeaderAttempts, strconv.Itoa(l.Attempts))
	put(report.HeaderSubject, l.Subject)
	put(report.HeaderStream, l.Source.Stream)
	number(report.HeaderStreamSequence, l.Source.Sequence)
	put(report.HeaderPublishedAt, report.FormatTime(l.PublishedAt))
	put(report.HeaderDue, report.FormatTime(l.Due))
	put(report.HeaderFirstFailedAt, report.FormatTime(l.FirstFailedAt))
	put(report.HeaderFailedAt, report.FormatTime(l.FailedAt))
	number(report.HeaderReplays, uint64(l.Replays))
	number(report.HeaderReopened, l.Reopened)
	put(report.HeaderUpstream, l.Upstream)
	put(report.HeaderWorker, l.Worker)
	put(report.HeaderVersion, l.Version)
	number(report.HeadersDropped, uint64(l.Dropped+dropped))
	return h
}

// readLetter reads whatever lies on a letter's subject. What is missing or garbled is zero, and Verify finds it.
func readLetter(subject string, seq uint64, h nats.Header, body []byte) Letter {
	number := func(name string) uint64 {
		n, err := strconv.ParseUint(h.Get(name), 10, 63)
		if err != nil {
			return 0 // not the nearest number, which ParseUint returns
		}
		return n
	}
	l := Letter{
		Sequence:      seq,
		Class:         report.Class(h.Get(report.HeaderClass)),
		Code:          report.Code(h.Get(report.HeaderCode)),
		Reason:        h.Get(report.HeaderReason),
		Hash:          h.Get(report.HeaderAuditHash),
		Attempts:      int(number(report.HeaderAttempts)),
		Subject:       h.Get(report.HeaderSubject),
		Source:        stream.Ref{Stream: h.Get(report.HeaderStream), Sequence: number(report.HeaderStreamSequence)},
		PublishedAt:   report.ParseTime(h.Get(report.HeaderPublishedAt)),
		Due:           report.ParseTime(h.Get(report.HeaderDue)),
		FirstFailedAt: report.ParseTime(h.Get(report.HeaderFirstFailedAt)),
		FailedAt:      report.ParseTime(h.Get(report.HeaderFailedAt)),
		Replays:       int(number(report.HeaderReplays)),
		Reopened:      number(report.HeaderReopened),
		Upstream:      h.Get(report.HeaderUpstream),
		Worker:        h.Get(report.HeaderWorker),
		Version:       h.Get(report.HeaderVersion),
		Dropped:       int(number(report.HeadersDropped)),
		Body:          body,
	}
	if parts := strings.Split(subject, "."); len(parts) == 4 {
		l.Site, l.Key = report.Token(parts[2]), report.Key(parts[3])
	}
	l.Foreign, _ = report.Foreign(h)
	return l
}

// MarshalJSON writes the letter for export: the payload as "event" if it is JSON in UTF-8, else as base64 in "payload". A
// letter of a list, whose Body is nil, has neither; one whose payload is empty has the payload "".
func (l Letter) MarshalJSON() ([]byte, error) {
	out := struct {
		Key           report.Key      `json:"key"`
		SiteID        string          `json:"site_id"`
		Class         report.Class    `json:"class"`
		Code          report.Code     `json:"code"`
		Reason        string          `json:"reason"`
		Hash          string          `json:"audit_hash"`
		Attempts      int             `json:"attempts"`
		Replays       int             `json:"replays"`
		Due           time.Time       `json:"due,omitzero"`
		PublishedAt   time.Time       `json:"published_at,omitzero"`
		FirstFailedAt time.Time       `json:"first_failed_at,omitzero"`
		FailedAt      time.Time       `json:"failed_at,omitzero"`
		Reopened      uint64          `json:"reopened,omitempty"`
		Upstream      string          `json:"upstream,omitempty"`
		Worker        string          `json:"worker,omitempty"`
		Version       string          `json:"version,omitempty"`
		Subject       string          `json:"subject"`
		Stream        string          `json:"stream"`
		Source        uint64          `json:"stream_sequence"`
		Sequence      uint64          `json:"letter"`
		Dropped       int             `json:"headers_dropped,omitempty"`
		Headers       nats.Header     `json:"headers,omitempty"`
		Event         json.RawMessage `json:"event,omitempty"`
		Payload       *[]byte         `json:"payload,omitempty"`
	}{
		l.Key, l.SiteID(), l.Class, l.Code, l.Reason, l.Hash, l.Attempts, l.Replays, l.Due, l.PublishedAt, l.FirstFailedAt, l.FailedAt,
		l.Reopened, l.Upstream, l.Worker, l.Version, l.Subject, l.Source.Stream, l.Source.Sequence, l.Sequence, l.Dropped, l.Foreign, nil, nil,
	}
	switch {
	case l.Body == nil: // of a list, which is no claim about the payload
	case json.Valid(l.Body) && utf8.Valid(l.Body):
		out.Event = slices.Clone(l.Body)
	default:
		out.Payload = &l.Body
	}
	return json.Marshal(out)
}
