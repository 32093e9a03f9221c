package stream

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
)

// Ref names a message: where it is stored.
type Ref struct {
	Stream   string
	Sequence uint64
}

// Message is a message of either queue, read.
type Message struct {
	Ref     Ref
	Subject string
	Header  nats.Header
	Body    []byte

	Event   report.Event // zero if Invalid is set
	Invalid error        // report.ErrUndecodable or report.ErrInvalid
	Key     report.Key
	Site    report.Token // report.NoSite if Invalid is set
	Carried Carried      // zero on REPORTS

	// PublishedAt is when the publisher handed the report over, however often it was requeued since.
	PublishedAt time.Time
	// Identity is the message that this one stands for: itself, or for a report handed back or parked the message
	// that was in hand then. A death is recorded once per identity and PublishedAt.
	Identity Ref
}

// Read makes a Message of its parts. stored is when the server stored it.
func Read(ref Ref, subject string, header nats.Header, body []byte, stored time.Time) Message {
	m := Message{Ref: ref, Subject: subject, Header: header, Body: body, PublishedAt: stored.UTC(), Identity: ref}
	if ref.Stream == Requeued {
		m.Carried = readCarried(header)
		if !m.Carried.PublishedAt.IsZero() {
			m.PublishedAt = m.Carried.PublishedAt
		}
		if m.Carried.StandsFor.Stream != "" {
			m.Identity = m.Carried.StandsFor
		}
	}
	if m.Event, m.Invalid = report.Decode(body); m.Invalid != nil {
		m.Event, m.Key, m.Site = report.Event{}, report.UndecodableKey(body), report.NoSite
		return m
	}
	m.Key, m.Site = m.Event.Key(), report.NewToken(m.Event.SiteID)
	return m
}

// ReadStored reads a message that was fetched from its stream by sequence or subject.
func ReadStored(stream string, raw *jetstream.RawStreamMsg) Message {
	return Read(Ref{stream, raw.Sequence}, raw.Subject, raw.Header, raw.Data, raw.Time)
}

// Parked reports whether the message is a schedule that puts the report back later.
func (m Message) Parked() bool { return strings.HasPrefix(m.Subject, "reports.parked.") }
