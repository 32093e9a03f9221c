package report

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Kind says what an error means for the next step.
type Kind int

const (
	KindPoison    Kind = iota // no retry can help: dead-letter now
	KindTransient             // worth another attempt after a delay
	KindHold                  // our own configuration or a whole host is at fault; not this report
)

func (k Kind) String() string { return [...]string{"poison", "transient", "hold"}[k] }

// Code says in one kebab-case word what is wrong. Handlers may use codes of their own of at most 64
// bytes; anything else is recorded as [CodeUnclassified].
type Code string

// The codes that Guyline itself uses.
const (
	CodeUndecodable       Code = "undecodable"        // the event is not one unambiguous JSON object
	CodeInvalidEvent      Code = "invalid-event"      // a field of the event breaks a rule
	CodeUnknownSite       Code = "unknown-site"       // the site registry does not know the site
	CodeOutsideRoot       Code = "outside-root"       // the path leaves the worker's file root
	CodeUnsupportedScheme Code = "unsupported-scheme" // no fetcher for this kind of URI
	CodeCredentialsInURI  Code = "credentials-in-uri" // the URI carries a user name or password
	CodeRefusedAddress    Code = "refused-address"    // a host, address or redirect that the worker may not follow
	CodeTooManyRedirects  Code = "too-many-redirects"
	CodeBadRequest        Code = "bad-request" // the source will never answer such a request
	CodeNotFound          Code = "not-found"
	CodeGone              Code = "gone" // the source says that it will not come back
	CodeArchived          Code = "archived"
	CodeForbidden         Code = "forbidden"
	CodeLinkExpired       Code = "link-expired"     // a signed link whose time is over
	CodeUnauthorized      Code = "unauthorized"     // the worker's credentials are missing or wrong
	CodeNoSuchBucket      Code = "no-such-bucket"   // missing, or in another region
	CodeNoSuchHost        Code = "no-such-host"     // its name does not resolve
	CodeBadCertificate    Code = "bad-certificate"  // TLS with the host cannot be trusted or set up
	CodeHostKey           Code = "host-key"         // the SSH host's key is unknown, or not the known one
	CodeClockSkew         Code = "clock-skew"       // the worker's clock and the source's differ
	CodeOutOfResources    Code = "out-of-resources" // the worker lacks disk, memory or file descriptors
	CodeTooLarge          Code = "too-large"
	CodeNotAPDF           Code = "not-a-pdf"
	CodeMalformedPDF      Code = "malformed-pdf"
	CodeNoPages           Code = "no-pages"
	CodeEncrypted         Code = "encrypted"
	CodeShortRead         Code = "short-read"
	CodeStillUploading    Code = "still-uploading"
	CodeSHA256Mismatch    Code = "sha256-mismatch"
	CodeTimeout           Code = "timeout"
	CodeConnection        Code = "connection"
	CodeThrottled         Code = "throttled"
	CodeServerError       Code = "server-error"
	CodeKilledMemory      Code = "killed-memory"
	CodeKilledTime        Code = "killed-time"
	CodeCrashed           Code = "crashed"
	CodePanic             Code = "panic"
	CodeResultTooLarge    Code = "result-too-large"
	CodeInvalidResult     Code = "invalid-result" // the handler returned something that is not a JSON object
	CodeRejected          Code = "rejected"       // an extractor of the operator's own refuses the file
	CodeTemporary         Code = "temporary"      // an extractor of the operator's own asks for another attempt
	CodeAbandoned         Code = "abandoned"      // workers vanished with the report until no delivery was left
	CodeUnclassified      Code = "unclassified"   // nobody said what kind of error it is
)

// ConfigError says which field of a room's configuration is wrong. Whoever has filled it in knows the setting behind it.
type ConfigError struct {
	Field string // like S3.Endpoint
	Err   error  // without secrets
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// Error is an error with a kind and a code. Make one with [Transient], [RetryAfter], [Poison] or
// [Hold]; read one with [Classify].
type Error struct {
	Kind  Kind
	Code  Code
	Delay time.Duration // for transient errors: the delay that the source asked for; 0 = none
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Transient says that another attempt may succeed.
func Transient(code Code, err error) error { return &Error{KindTransient, code, 0, err} }

// RetryAfter is [Transient] with the delay that the source asked for. It is capped by the longest
// delay of the configuration, and jitter comes on top.
func RetryAfter(d time.Duration, code Code, err error) error {
	return &Error{KindTransient, code, d, err}
}

// Poison says that no retry can help; the report is dead-lettered at once.
func Poison(code Code, err error) error { return &Error{KindPoison, code, 0, err} }

// Hold says that our own configuration or a whole host is at fault, such as wrong credentials. The reports of that upstream are
// parked; one that cannot be parked is retried with the longest delay.
func Hold(code Code, err error) error { return &Error{KindHold, code, 0, err} }

// Outage reports whether the error says that the upstream as a whole is at fault and not this one report: every hold, and a transient
// error of a connection, a time-out, a failing or a throttling source.
func (e Error) Outage() bool {
	switch e.Code {
	case CodeConnection, CodeTimeout, CodeServerError, CodeThrottled:
		return e.Kind != KindPoison
	}
	return e.Kind == KindHold
}

// Classify finds the kind and code of any error. The outermost [Error] in its chain decides. An error
// without one is transient if it is a time-out ([CodeTimeout]), a refused or reset connection or a temporary
// DNS failure ([CodeConnection]); everything else is poison, [CodeUnclassified].
func Classify(err error) Error {
	if e, ok := errors.AsType[*Error](err); ok {
		out := *e
		if !validCode(out.Code) {
			out.Code = CodeUnclassified
		}
		out.Err = err
		return out
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsTimeout || dns.IsTemporary {
			return Error{KindTransient, CodeConnection, 0, err}
		}
		return Error{KindPoison, CodeUnclassified, 0, err}
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return Error{KindTransient, CodeConnection, 0, err}
	}
	timeout, ok := errors.AsType[net.Error](err)
	if ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return Error{KindTransient, CodeTimeout, 0, err}
	}
	return Error{KindPoison, CodeUnclassified, 0, err}
}

func validCode(c Code) bool {
	s := string(c)
	return s != "" && len(s) <= 64 && s[0] != '-' && s[len(s)-1] != '-' && !strings.Contains(s, "--") &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// PanicError is what a handler's panic becomes: poison with [CodePanic].
func PanicError(value any) error { return Poison(CodePanic, fmt.Errorf("panic: %v", value)) }
