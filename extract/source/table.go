package source

import (
	"slices"
	"syscall"
	"time"

	"github.com/guyline/guyline/report"
)

// A signal is what a source or the way to it said, in its own words: an HTTP status, the code of an S3 error, an SFTP
// status, an error number of the system, or a fault that this package found. Signals of different types never meet.
type (
	status     int
	s3Code     string
	sftpStatus uint32
	fault      string
	signals    []any // of these types or syscall.Errno
)

const (
	faultUploading  fault = "still uploading"
	faultShort      fault = "short body"
	faultTooLarge   fault = "too large"
	faultRedirects  fault = "too many redirects"
	faultDowngrade  fault = "unsafe redirect"
	faultExpired    fault = "signed link expired"
	faultAnonymous  fault = "refused, and no credentials were sent"
	faultLogin      fault = "ssh login failed"
	faultHostKey    fault = "ssh host key"
	faultTLS        fault = "tls"
	faultNoHost     fault = "nxdomain"
	faultConnection fault = "connection" // refused, reset, closed, or anything else on the way
	faultTimeout    fault = "timeout"
)

// row says what follows from each of its signals.
type row struct {
	signals
	kind  report.Kind
	code  report.Code
	delay time.Duration // before the next attempt
	todo  string        // for whoever reads the reason
}

// Delays. The longest delay of the configuration caps them; 0 is the usual backoff.
const (
	backoff = 0
	slower  = 5 * time.Second // unless the source asks for another delay
	settle  = 30 * time.Second
	minutes = time.Minute
	hours   = time.Hour
)

// table is the judgement, all of it.
func table() []row {
	const (
		transient = report.KindTransient
		poison    = report.KindPoison
		hold      = report.KindHold
	)
	return []row{
		// The file is there, but not as it should be.
		{signals{faultUploading, status(202), status(204), status(205), syscall.EBUSY, syscall.ETXTBSY},
			transient, report.CodeStillUploading, settle, "if the upload is over, deliver the file again under its final name"},
		{signals{status(409), status(412), status(416), status(423), status(425)},
			transient, report.CodeStillUploading, backoff, "the object is changing or locked"},
		{signals{faultShort, status(206), s3Code("IncompleteBody")},
			transient, report.CodeShortRead, backoff, "the source or the connection cut it short"},
		{signals{faultTooLarge},
			poison, report.CodeTooLarge, backoff, "split the file or raise the limit"},

		// The request.
		{signals{faultRedirects},
			poison, report.CodeTooManyRedirects, backoff, "correct source_uri"},
		{signals{faultDowngrade},
			poison, report.CodeRefusedAddress, backoff, "correct source_uri"},
		{signals{status(400), status(405), status(406), status(411), status(413), status(414), status(415), status(422), status(501), status(505),
			s3Code("MethodNotAllowed"), s3Code("NotImplemented"), sftpStatus(8)},
			poison, report.CodeBadRequest, backoff, "the source will not answer this request; correct source_uri"},
		{signals{status(410), status(451)},
			poison, report.CodeGone, backoff, "the source will not offer it again; deliver it elsewhere"},
		{signals{status(404), s3Code("NoSuchKey"), s3Code("NoSuchVersion"), s3Code("NotFound"), sftpStatus(2), sftpStatus(10)},
			transient, report.CodeNotFound, minutes, "deliver it or correct source_uri"}, // an event may precede its object
		{signals{syscall.ENOENT},
			transient, report.CodeNotFound, backoff, "deliver it or correct source_uri"},
		{signals{syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP},
			poison, report.CodeNotFound, backoff, "no file can be there; correct source_uri"},
		{signals{syscall.EISDIR, syscall.ENXIO, syscall.ENODEV},
			poison, report.CodeNotAPDF, backoff, "it is not a file; correct source_uri"},
		{signals{s3Code("InvalidObjectState"), s3Code("ObjectNotInActiveTier")},
			transient, report.CodeArchived, hours, "restore the object from its archive"},

		// Who asks.
		{signals{status(403), s3Code("AccessDenied"), s3Code("AllAccessDisabled"), sftpStatus(3), syscall.EACCES, syscall.EPERM},
			poison, report.CodeForbidden, backoff, "give the worker permission to read it"},
		{signals{faultExpired, s3Code("ExpiredRequest")},
			poison, report.CodeLinkExpired, backoff, "publish a fresh link"},
		{signals{s3Code("ExpiredToken"), s3Code("ExpiredTokenException"), s3Code("TokenRefreshRequired")},
			transient, report.CodeUnauthorized, backoff, "the credentials are read again for the next attempt"},
		{signals{status(401), status(407), faultAnonymous, faultLogin,
			s3Code("InvalidAccessKeyId"), s3Code("SignatureDoesNotMatch"), s3Code("InvalidToken"), s3Code("InvalidSecurity"), s3Code("NotSignedUp")},
			hold, report.CodeUnauthorized, backoff, "correct the worker's credentials for this source"},
		{signals{s3Code("RequestTimeTooSkewed")},
			transient, report.CodeClockSkew, backoff, "set the worker's clock"},

		// The host as a whole.
		{signals{s3Code("NoSuchBucket"), s3Code("PermanentRedirect"), s3Code("AuthorizationHeaderMalformed"), s3Code("InvalidRegion"),
			s3Code("IllegalLocationConstraintException")},
			hold, report.CodeNoSuchBucket, backoff, "correct the bucket, the endpoint or the region"},
		{signals{faultNoHost},
			hold, report.CodeNoSuchHost, backoff, "correct the name or the resolver"},
		{signals{faultTLS},
			hold, report.CodeBadCertificate, backoff, "correct the host's certificate, or trust its authority"},
		{signals{faultHostKey},
			hold, report.CodeHostKey, backoff, "ask the host's owner for its key, and correct the known hosts only if it is right"},
		{signals{status(429), status(503), s3Code("SlowDown"), s3Code("SlowDownRead"), s3Code("Throttling"), s3Code("ThrottlingException"),
			s3Code("RequestThrottled"), s3Code("RequestLimitExceeded"), s3Code("BandwidthLimitExceeded"), s3Code("TooManyRequests"), s3Code("ServiceUnavailable")},
			transient, report.CodeThrottled, slower, "the source asks for fewer requests"},
		{signals{status(499), status(500), status(502), status(504), status(520), status(521), status(522), status(523), status(524), status(525),
			status(526), status(527), s3Code("InternalError"), s3Code("OperationAborted"), s3Code("TemporaryRedirect"), sftpStatus(4)},
			transient, report.CodeServerError, backoff, "the source failed"},

		// The way there.
		{signals{faultTimeout, status(408), s3Code("RequestTimeout"), syscall.ETIMEDOUT, syscall.EAGAIN},
			transient, report.CodeTimeout, backoff, "the source was too slow"},
		{signals{faultConnection, sftpStatus(5), sftpStatus(6), sftpStatus(7), sftpStatus(9),
			syscall.EIO, syscall.ESTALE, syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
			syscall.ECONNABORTED, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENETDOWN, syscall.ENETRESET, syscall.ENETUNREACH},
			transient, report.CodeConnection, backoff, "the source, or the way to it, failed"},
		{signals{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.ENOBUFS},
			transient, report.CodeOutOfResources, slower, "give the worker more of it, or less work"},
	}
}

// judge finds the row of a signal. Statuses that no row names are judged by their hundreds, like 500 and 400; unknown
// SFTP statuses like the general failure.
func judge(signal any) (row, bool) {
	rows := table()
	i := slices.IndexFunc(rows, func(r row) bool { return slices.Contains(r.signals, signal) })
	if i >= 0 {
		return rows[i], true
	}
	switch s := signal.(type) {
	case status:
		if s >= 500 {
			return judge(status(500))
		}
		return judge(status(400))
	case sftpStatus:
		return judge(sftpStatus(4))
	}
	return row{}, false
}
