package source

import (
	"bytes"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/sftp"

	"github.com/guyline/guyline/report"
)

// failure is an error as the table judges its signal. asked is the delay that the source asked for, 0 if it did not;
// it counts where the source throttles. An error without a row has no kind.
func failure(signal any, asked time.Duration, err error) error {
	r, ok := judge(signal)
	if !ok {
		return err
	}
	if asked == 0 || r.code != report.CodeThrottled {
		asked = r.delay
	}
	return &report.Error{Kind: r.kind, Code: r.code, Delay: asked, Err: fmt.Errorf("%w; %s", err, r.todo)}
}

// answerSignal reads an HTTP answer: its status and the beginning of its body, in which S3 explains itself. ours says
// that the request carried our own credentials. Where the publisher signed a link, an answer that blames the signature
// or the bucket is about that link alone.
func answerSignal(code int, body []byte, ours bool) (signal any, explained string) {
	said := parseS3Error(body)
	explained = strings.TrimSpace(said.Code + " " + said.Message)
	switch expired := strings.Contains(strings.ToLower(said.Message), "expired"); {
	case !ours && (said.Code == "ExpiredToken" || said.Code == "ExpiredRequest" || said.Code == "AccessDenied" && expired ||
		said.Code == "AuthenticationFailed" && strings.Contains(string(body), "time frame")): // the latter is Azure's
		return faultExpired, explained
	case !ours && code == http.StatusForbidden && said.Code == "" && bytes.Contains(bytes.ToLower(body), []byte("request has expired")):
		return faultExpired, "request has expired"
	}
	if r, ok := judge(s3Code(said.Code)); ok && (ours || r.kind == report.KindTransient) {
		return s3Code(said.Code), explained
	}
	return status(code), explained
}

// quoted is a source's own words, fit for an error of ours.
func quoted(s string) string { return report.Cut(report.Clean(s), 200) }

type s3Error struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// parseS3Error returns the zero value for anything that is not S3's XML.
func parseS3Error(body []byte) s3Error {
	var e s3Error
	if !bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n"), []byte("<")) || xml.Unmarshal(body, &e) != nil {
		return s3Error{}
	}
	return e
}

// retryAfter reads Retry-After, which is seconds or a date. Without one in the future it returns 0; more than a day is
// a day.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const longest = 24 * time.Hour
	written := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(written, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(longest/time.Second))) * time.Second
	}
	at, err := http.ParseTime(written)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), longest))
}

// wayError judges what happened on the way to a source: the name, the connection, TLS.
func wayError(err error) error {
	if judged, ok := errors.AsType[*report.Error](err); ok {
		return judged
	}
	for { // a url.Error quotes the whole URI
		wrapped, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = wrapped.Err
	}
	if strings.HasPrefix(err.Error(), "failed to parse Location header") { // which it quotes
		return failure(status(400), 0, errors.New("the redirect leads to no valid URL"))
	}
	return failure(waySignal(err), 0, err)
}

func waySignal(err error) any {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if r, ok := judge(errno); ok && r.code == report.CodeOutOfResources {
			return errno
		}
	}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case isDNS && dns.IsNotFound && !dns.IsTemporary && !dns.IsTimeout:
		return faultNoHost
	case badCertificate, notTLS, errors.Is(err, http.ErrSchemeMismatch), isOp && op.Op == "remote error": // a TLS alert
		return faultTLS
	case isNet && timeout.Timeout():
		return faultTimeout
	}
	return faultConnection
}

// sftpError judges what an SFTP server said, or what happened on the way to it.
func sftpError(err error) error {
	said, isStatus := errors.AsType[*sftp.StatusError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure(sftpStatus(2), 0, errors.New("there is no such file"))
	case errors.Is(err, fs.ErrPermission):
		return failure(sftpStatus(3), 0, errors.New("the SFTP server denies permission"))
	case isStatus:
		return failure(sftpStatus(said.Code), 0, errors.New(quoted(said.Error())))
	case errors.Is(err, io.EOF):
		return failure(faultConnection, 0, errors.New("the SFTP server closed the connection"))
	}
	return wayError(err)
}
