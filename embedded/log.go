package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// serverLog passes the server's log on to slog. The server's own levels are those of a service with
// an operator of its own; here it is a part. Its warnings are mostly about files it is about to
// rebuild after a crash, so they are for debugging; its errors are warnings.
type serverLog struct {
	to *slog.Logger

	mu    sync.Mutex
	cause string // the last fatal message: the server logs it where another would return an error
}

func newServerLog(to *slog.Logger) *serverLog {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return &serverLog{to: to.With("from", "nats-server")}
}

func (l *serverLog) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *serverLog) Fatalf(format string, v ...any) {
	text := sprint(format, v)
	l.mu.Lock()
	l.cause = text
	l.mu.Unlock()
	l.to.Debug(text) // whoever started the server turns it into an error
}

func (l *serverLog) Errorf(format string, v ...any)  { l.to.Warn(sprint(format, v)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.to.Debug(sprint(format, v)) }
func (l *serverLog) Noticef(format string, v ...any) { l.to.Debug(sprint(format, v)) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

func sprint(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
