package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/guyline/guyline/report"
)

// s3Store is the one store that s3: URIs are about. The operator has chosen its endpoint: no guard looks at it.
type s3Store struct {
	client      minio.Core
	credentials *credentials.Credentials
	transport   transport
	host        string
}

// sharedCredentials are those of the usual AWS variables, then those of the usual AWS files; else none.
func sharedCredentials() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
}

func newS3Store(cfg S3, creds *credentials.Credentials, transport transport) (*s3Store, error) {
	if cfg.Endpoint == "" {
		cfg.Endpoint = "https://s3.amazonaws.com"
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, errors.New("the S3 endpoint is no URL like https://minio.example:9000, without path and user")
	}
	options := &minio.Options{Creds: creds, Secure: u.Scheme == "https", Transport: noting{transport}, Region: cfg.Region, MaxRetries: 1}
	if cfg.PathStyle {
		options.BucketLookup = minio.BucketLookupPath
	}
	client, err := minio.NewCore(u.Host, options)
	if err != nil {
		return nil, fmt.Errorf("open the S3 endpoint: %w", err)
	}
	return &s3Store{*client, creds, transport, u.Host}, nil
}

func (s *Sources) fetchS3(ctx context.Context, bucket, key string, alive func()) (*File, error) {
	var header http.Header
	body, info, _, err := s.s3.client.GetObject(context.WithValue(ctx, lastHeader{}, &header), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.s3Error(ctx, header, err)
	}
	if body == nil { // how minio-go returns an odd status that it calls a success
		return nil, failure(status(http.StatusNoContent), 0, errors.New("the store answers without a body"))
	}
	defer body.Close()
	f, err := s.spool(ctx, body, info.Size, alive, wayError)
	if err != nil {
		return nil, err
	}
	f.Came = came(http.StatusOK, header)
	return f.unlessS3Error(header, true)
}

func (s *Sources) s3Error(ctx context.Context, header http.Header, err error) error {
	said, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return wayError(err)
	}
	var signal any = status(said.StatusCode)
	if _, known := judge(s3Code(said.Code)); known {
		signal = s3Code(said.Code)
	}
	switch said.Code {
	case "AccessDenied":
		used, err := s.s3.credentials.GetWithContext(&credentials.CredContext{Client: &http.Client{Transport: s.s3.transport, Timeout: idleLimit}, Context: ctx})
		if err != nil || used.SignerType.IsAnonymous() {
			signal = faultAnonymous
		}
	case "RequestTimeTooSkewed":
		s.log.Error("the clocks of this worker and of the S3 store differ", "store_date", header.Get("Date"))
	}
	if r, _ := judge(signal); r.code == report.CodeUnauthorized {
		s.s3.credentials.Expire() // the next attempt reads them again
	}
	return failure(signal, retryAfter(header, time.Now()),
		fmt.Errorf("the store answers %d %s: %s", said.StatusCode, said.Code, quoted(said.Message)))
}

// noting keeps the header of the last answer for whoever asks by the context: minio-go drops it when it makes an error.
type noting struct{ http.RoundTripper }

type lastHeader struct{}

func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(req)
	if header, ok := req.Context().Value(lastHeader{}).(*http.Header); ok && err == nil {
		*header = resp.Header
	}
	return resp, err
}
