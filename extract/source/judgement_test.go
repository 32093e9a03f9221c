package source

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/guyline/guyline/report"
)

// The table once more, as its words look from outside. Each is said by a real server, and no row goes unsaid.
var judgements = []struct {
	want   string
	status []int
	s3     string
	sftp   []uint32
	errno  []syscall.Errno
	faults []fault // each has a test of its own
}{
	{"transient still-uploading 30s", []int{202, 204, 205}, "", nil, []syscall.Errno{syscall.EBUSY, syscall.ETXTBSY}, []fault{faultUploading}},
	{"transient still-uploading", []int{409, 412, 416, 423, 425}, "", nil, nil, nil},
	{"transient short-read", []int{206}, "IncompleteBody", nil, nil, []fault{faultShort}},
	{"poison too-large", nil, "", nil, nil, []fault{faultTooLarge}},
	{"poison too-many-redirects", nil, "", nil, nil, []fault{faultRedirects}},
	{"poison refused-address", nil, "", nil, nil, []fault{faultDowngrade}},
	{"poison bad-request", []int{300, 304, 400, 402, 405, 406, 411, 413, 414, 415, 418, 422, 501, 505}, "MethodNotAllowed NotImplemented InvalidArgument", []uint32{8}, nil, nil},
	{"poison gone", []int{410, 451}, "", nil, nil, nil},
	{"transient not-found 1m0s", []int{404}, "NoSuchKey NoSuchVersion NotFound", []uint32{2, 10}, nil, nil},
	{"transient not-found", nil, "", nil, []syscall.Errno{syscall.ENOENT}, nil},
	{"poison not-found", nil, "", nil, []syscall.Errno{syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP}, nil},
	{"poison not-a-pdf", nil, "", nil, []syscall.Errno{syscall.EISDIR, syscall.ENXIO, syscall.ENODEV}, nil},
	{"transient archived 1h0m0s", nil, "InvalidObjectState ObjectNotInActiveTier", nil, nil, nil},
	{"poison forbidden", []int{403}, "AccessDenied AllAccessDisabled", []uint32{3}, []syscall.Errno{syscall.EACCES, syscall.EPERM}, nil},
	{"poison link-expired", nil, "ExpiredRequest", nil, nil, []fault{faultExpired}},
	{"transient unauthorized", nil, "ExpiredToken ExpiredTokenException TokenRefreshRequired", nil, nil, nil},
	{"hold unauthorized", []int{401, 407}, "InvalidAccessKeyId SignatureDoesNotMatch InvalidToken InvalidSecurity NotSignedUp", nil, nil, []fault{faultAnonymous, faultLogin}},
	{"transient clock-skew", nil, "RequestTimeTooSkewed", nil, nil, nil},
	{"hold no-such-bucket", nil, "NoSuchBucket PermanentRedirect AuthorizationHeaderMalformed InvalidRegion IllegalLocationConstraintException", nil, nil, nil},
	{"hold no-such-host", nil, "", nil, nil, []fault{faultNoHost}},
	{"hold bad-certificate", nil, "", nil, nil, []fault{faultTLS}},
	{"hold host-key", nil, "", nil, nil, []fault{faultHostKey}},
	{"transient throttled 5s", []int{429, 503}, "SlowDown SlowDownRead Throttling ThrottlingException RequestThrottled RequestLimitExceeded BandwidthLimitExceeded TooManyRequests ServiceUnavailable", nil, nil, nil},
	{"transient server-error", []int{499, 500, 502, 504, 507, 520, 521, 522, 523, 524, 525, 526, 527, 530}, "InternalError OperationAborted TemporaryRedirect", []uint32{4, 17}, nil, nil},
	{"transient timeout", []int{408}, "RequestTimeout", nil, []syscall.Errno{syscall.ETIMEDOUT, syscall.EAGAIN}, []fault{faultTimeout}},
	{"transient connection", nil, "", []uint32{5, 6, 7, 9}, []syscall.Errno{
		syscall.EIO, syscall.ESTALE, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, // and what a mounted share says that is cut off
		syscall.ECONNABORTED, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENETDOWN, syscall.ENETRESET, syscall.ENETUNREACH,
	}, []fault{faultConnection}},
	{"transient out-of-resources 5s", nil, "", nil, []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.ENOBUFS}, nil},
}

// says answers with what the end of the path says: a status, or an S3 error code.
func says(w http.ResponseWriter, r *http.Request) {
	word := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if code, err := strconv.Atoi(word); err == nil {
		w.WriteHeader(code)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>so it is,\n&lt;truly&gt; https://x/?sig=%s</Message></Error>", word, secret)
}

func TestJudgement(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(says))
	t.Cleanup(web.Close)
	ssh := newSSHServer(t, stubSFTP)
	s := open(t, Config{SFTP: ssh.login()})
	s.useS3(t, web.URL, credentials.NewStaticV4("key", secret, ""))
	said := signals{}
	check := func(signal any, uri, want string) {
		said = append(said, signal)
		if got, err := fetched(t, s, uri, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", uri, got, err, want)
		}
	}
	for _, j := range judgements {
		for _, code := range j.status {
			check(status(code), fmt.Sprintf("%s/%d?sig=%s", web.URL, code, secret), j.want)
		}
		for code := range strings.FieldsSeq(j.s3) {
			check(s3Code(code), "s3://reports/"+code, j.want)
		}
		for _, code := range j.sftp {
			check(sftpStatus(code), fmt.Sprintf("sftp://%s/status/%d", ssh.address, code), j.want)
		}
		for _, errno := range j.errno {
			said = append(said, errno)
			if got := verdict(t, fileError(errno)); got != j.want {
				t.Errorf("%v: got %s, want %s", errno, got, j.want)
			}
		}
		for _, f := range j.faults {
			said = append(said, f)
			if got := verdict(t, failure(f, 0, http.ErrAbortHandler)); got != j.want {
				t.Errorf("%s: got %s, want %s", f, got, j.want)
			}
		}
	}
	for _, r := range table() {
		for _, signal := range r.signals {
			if !slices.Contains(said, signal) {
				t.Errorf("no server says %T %v", signal, signal)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 4, 1, 8, 0, 0, 0, time.UTC)
	for written, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "1.5": 0, "0": 0, "+5": 0,
		"7": 7 * time.Second, " 120 ": 2 * time.Minute,
		"86400": 24 * time.Hour, "9999999999": 24 * time.Hour, "99999999999999999999999999": 24 * time.Hour,
		"Wed, 01 Apr 2026 08:05:00 GMT": 5 * time.Minute, "Wed, 01 Apr 2026 07:59:59 GMT": 0, "Fri, 01 Jan 9999 00:00:00 GMT": 24 * time.Hour,
		"Wednesday, 01-Apr-26 08:00:30 GMT": 30 * time.Second,
	} {
		if got := retryAfter(http.Header{"Retry-After": {written}}, now); got != want {
			t.Errorf("%q: got %v, want %v", written, got, want)
		}
	}
}

// A delay that the source asks for counts on 429 and 503, by HTTP and by S3, and nowhere else.
func TestAskedDelay(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "42")
		says(w, r)
	}))
	t.Cleanup(web.Close)
	s := open(t, Config{})
	s.useS3(t, web.URL, credentials.NewStaticV4("key", secret, ""))
	for uri, want := range map[string]string{
		web.URL + "/429":         "transient throttled 42s",
		web.URL + "/503":         "transient throttled 42s",
		web.URL + "/500":         "transient server-error",
		web.URL + "/404":         "transient not-found 1m0s",
		"s3://reports/503":       "transient throttled 42s",
		"s3://reports/SlowDown":  "transient throttled 42s",
		"s3://reports/NoSuchKey": "transient not-found 1m0s",
	} {
		if got, err := fetched(t, s, uri, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", uri, got, err, want)
		}
	}
}

// S3 explains itself in the body, also where the publisher has signed a link to it.
func TestAnswerSignal(t *testing.T) {
	t.Parallel()
	xml := func(code, message string) string {
		return "\xef\xbb\xbf<?xml version='1.0'?><Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>"
	}
	for _, tt := range []struct {
		code int
		body string
		ours bool
		want any
	}{
		{200, "%PDF-1.7", false, status(200)},
		{200, "<html>log in</html>", false, status(200)},
		{200, xml("SlowDown", "Please reduce your request rate."), false, s3Code("SlowDown")},
		{200, xml("InternalError", ""), true, s3Code("InternalError")},
		{200, xml("NoSuchBucket", ""), false, status(200)},
		{403, xml("AccessDenied", "Request has expired"), false, faultExpired},
		{403, xml("ExpiredRequest", ""), false, faultExpired},
		{400, xml("ExpiredToken", "The provided token has expired."), false, faultExpired},
		{403, "<Error><Code>AuthenticationFailed</Code><Message>x</Message><AuthenticationErrorDetail>Signed expiry time must be within the time frame</AuthenticationErrorDetail></Error>", false, faultExpired},
		{403, "Request has expired", false, faultExpired},
		{403, xml("AccessDenied", "Access Denied"), false, status(403)},
		{403, xml("SignatureDoesNotMatch", ""), false, status(403)},
		{403, xml("InvalidAccessKeyId", ""), false, status(403)},
		{404, xml("NoSuchBucket", ""), false, status(404)},
		{400, xml("RequestTimeout", ""), false, s3Code("RequestTimeout")},
		{400, xml("ExpiredToken", ""), true, s3Code("ExpiredToken")},
		{400, xml("SignatureDoesNotMatch", ""), true, s3Code("SignatureDoesNotMatch")},
		{418, xml("Teapot", ""), true, status(418)},
	} {
		if got, _ := answerSignal(tt.code, []byte(tt.body), tt.ours); got != tt.want {
			t.Errorf("%d %s (ours: %t): got %v, want %v", tt.code, tt.body, tt.ours, got, tt.want)
		}
	}
}

// What a source says may hold a link: it is redacted before it is cut, or half a password would pass as something else.
func TestQuoted(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"denied\r\nfor you": "denied for you",
		"see https://u:" + strings.Repeat("p", 300) + "@h/x?sig=" + strings.Repeat("s", 300): "see https://h/x",
		strings.Repeat("é", 150): strings.Repeat("é", 100),
	} {
		if got := quoted(said); got != want {
			t.Errorf("quoted(%q) = %q, want %q", said, got, want)
		}
	}
}

// What the worker itself lacks is said to be so, also on the way to a source.
func TestOwnFaults(t *testing.T) {
	t.Parallel()
	err := &url.Error{Op: "Get", URL: "https://host/?sig=" + secret, Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}}
	if got := verdict(t, wayError(err)); got != "transient out-of-resources 5s" {
		t.Errorf("got %s", got)
	}
}

// Every word of the table is in report's one list of codes, and says what to do.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := signals{}
	for _, r := range table() {
		if e := report.Classify(failure(r.signals[0], 0, http.ErrAbortHandler)); e.Code != r.code || e.Kind != r.kind || r.todo == "" {
			t.Errorf("%v: got %v %s", r.signals[0], e.Kind, e.Code)
		}
		for _, signal := range r.signals {
			if slices.Contains(seen, signal) {
				t.Errorf("%T %v is in two rows", signal, signal)
			}
			seen = append(seen, signal)
		}
	}
}
