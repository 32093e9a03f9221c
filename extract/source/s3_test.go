package source

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// useS3 has s3: URIs fetched from an endpoint.
func (s *Sources) useS3(t testing.TB, endpoint string, creds *credentials.Credentials) {
	t.Helper()
	store, err := newS3Store(S3{Endpoint: endpoint, Region: "us-east-1"}, creds, s.s3.transport)
	must(t, err)
	s.s3 = store
}

func static() *credentials.Credentials { return credentials.NewStaticV4("key", secret, "") }

func TestS3(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	must(t, backend.CreateBucket("reports"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	for path, body := range map[string][]byte{"/q2/a b+%20é.pdf": pdf(), "/empty.pdf": nil} {
		put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+(&url.URL{Path: "/reports" + path}).EscapedPath(), bytes.NewReader(body))
		must(t, err)
		put.Header.Set("Content-Type", "text/html")
		resp, err := server.Client().Do(put)
		must(t, err)
		resp.Body.Close()
	}
	for _, region := range []string{"us-east-1", ""} {
		s := open(t, Config{MaxBytes: 1 << 20})
		store, err := newS3Store(S3{Endpoint: server.URL + "/", Region: region, PathStyle: true}, static(), s.s3.transport)
		must(t, err)
		s.s3 = store
		for uri, want := range map[string]string{
			"s3://reports/q2/a b+%20é.pdf":              "fine",
			"s3://reports/missing.pdf":                  "transient not-found 1m0s",
			"s3://reports/empty.pdf":                    "transient still-uploading 30s",
			"s3://missing/a.pdf":                        "hold no-such-bucket",
			"s3://x/a.pdf":                              "poison bad-request",
			"s3://reports/" + strings.Repeat("k", 1025): "poison bad-request",
		} {
			if got, err := fetched(t, s, uri, pdf()); got != want {
				t.Errorf("region %q: %s: got %s (%v), want %s", region, uri, got, err, want)
			}
		}
		f, err := s.Fetch(t.Context(), "s3://reports/q2/a b+%20é.pdf")
		must(t, err)
		if f.Came != `status 200, content type "text/html"` {
			t.Errorf("came %s", f.Came)
		}
		must(t, f.Close())
	}
}

func TestS3Bodies(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Wed, 01 Apr 2026 08:00:00 GMT")
		switch r.URL.Path {
		case "/reports/short":
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("%PDF-"))
		case "/reports/large":
			w.Header().Set("Content-Length", fmt.Sprint(1<<40))
		case "/reports/slow":
			w.Header().Set("Retry-After", "9")
			w.Write([]byte("<Error><Code>SlowDown</Code></Error>"))
		case "/reports/accepted":
			w.WriteHeader(http.StatusAccepted)
			w.Write([]byte("<html></html>"))
		case "/reports/switched":
			switched(w, r)
		case "/reports/moved":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)
	s := open(t, Config{})
	s.useS3(t, server.URL, static())
	for key, want := range map[string]string{
		"short": "transient short-read", "large": "poison too-large", "slow": "transient throttled 9s",
		"accepted": "transient still-uploading 30s", "moved": "poison bad-request", "switched": "poison bad-request",
	} {
		if got, err := fetched(t, s, "s3://reports/"+key, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", key, got, err, want)
		}
	}
	server.Close()
	if got, err := fetched(t, s, "s3://reports/a", nil); got != "transient connection" {
		t.Errorf("no store: got %s (%v)", got, err)
	}
}

// Without credentials, a refusal says that they are missing; it does not condemn the reports.
func TestS3Anonymous(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("sent without credentials: %v", r.Header)
		}
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte("<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"))
	}))
	t.Cleanup(server.Close)
	s := open(t, Config{})
	s.useS3(t, server.URL, credentials.NewStatic("", "", "", credentials.SignatureAnonymous))
	if got, err := fetched(t, s, "s3://reports/a", nil); got != "hold unauthorized" {
		t.Errorf("got %s (%v)", got, err)
	}
}

// Credentials come from the usual files, and are read again after they were refused.
func TestSharedCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.Contains(r.Header.Get("Authorization"), "Credential=fresh/") {
			w.Header().Set("Last-Modified", "Wed, 01 Apr 2026 08:00:00 GMT")
			w.Write(pdf())
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte("<Error><Code>ExpiredToken</Code></Error>"))
	}))
	t.Cleanup(server.Close)
	s := open(t, Config{S3: S3{Endpoint: server.URL, Region: "us-east-1"}})
	write(t, file, []byte("[default]\naws_access_key_id = stale\naws_secret_access_key = "+secret+"\n"))
	if got, err := fetched(t, s, "s3://reports/a", nil); got != "transient unauthorized" {
		t.Errorf("stale: got %s (%v)", got, err)
	}
	write(t, file, []byte("[default]\naws_access_key_id = fresh\naws_secret_access_key = "+secret+"\n"))
	if got, err := fetched(t, s, "s3://reports/a", pdf()); got != "fine" {
		t.Errorf("fresh: got %s (%v)", got, err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the store was asked %d times, want once per fetch", n)
	}
}
