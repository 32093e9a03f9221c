package source

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.pdf"), pdf())
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{FileRoot: filepath.Join(dir, "none")}, "no such file or directory"},
		{Config{FileRoot: filepath.Join(dir, "a.pdf")}, "not a directory"},
		{Config{TempDir: filepath.Join(dir, "none")}, "no such file or directory"},
		{Config{MaxBytes: -1}, "must be above 0"},
		{Config{HostConcurrency: -1}, "must be above 0"},
		{Config{AllowHosts: []string{"https://a"}}, "number 1 of 1 is no host, host:port"},
		{Config{S3: S3{Endpoint: "minio:9000"}}, "no URL like"},
		{Config{S3: S3{Endpoint: "https://key:" + secret + "@minio"}}, "no URL like"},
		{Config{S3: S3{Endpoint: "https://minio/path"}}, "no URL like"},
		{Config{SFTP: SFTP{User: "x", KeyFile: filepath.Join(dir, "none")}}, "no such file or directory"},
		{Config{SFTP: SFTP{User: "x", KeyFile: filepath.Join(dir, "a.pdf")}}, "cannot be read"},
		{Config{SFTP: SFTP{Password: secret}}, "no user"},
	} {
		if _, err := Open(tt.cfg, slog.Default()); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		}
	}
}

// What killed processes have left is removed; what is not ours stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"guyline-123.download", "guyline-456.download", "guyline-1.pdf", "other-1.download"} {
		write(t, filepath.Join(dir, name), []byte("x"))
	}
	must(t, os.Mkdir(filepath.Join(dir, "guyline-dir.download"), 0o755))
	must(t, os.Symlink("guyline-1.pdf", filepath.Join(dir, "guyline-link.download")))
	must(t, sweep(dir))
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 4 {
		t.Errorf("left: %v", left)
	}
}

// A download has no name while it is in use, and can be read on after a sweep and after Close.
func TestSpooled(t *testing.T) {
	t.Parallel()
	site := website(t)
	s := open(t, Config{})
	f, err := s.Fetch(t.Context(), site.URL+"/a.pdf")
	must(t, err)
	left, err := os.ReadDir(s.cfg.TempDir)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("a download has a name: %v", left)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "%PDF-" {
		t.Errorf("read %q, %v", b, err)
	}
	must(t, f.Close())

	full := open(t, Config{})
	full.cfg.TempDir = filepath.Join(full.cfg.TempDir, "none")
	if got, err := fetched(t, full, site.URL+"/a.pdf", nil); got != "transient out-of-resources" {
		t.Errorf("got %s (%v)", got, err)
	}
}

// A host gets as many fetches at once as it may have; others do not wait for it, and who waits may stop waiting.
func TestHostConcurrency(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.Write(pdf())
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(hostOf(t, server.URL))
	must(t, err)
	s := open(t, Config{HostConcurrency: 2})
	var wg sync.WaitGroup
	fetch := func(uri string) {
		wg.Go(func() {
			if got, err := fetched(t, s, uri, pdf()); got != "fine" {
				t.Errorf("%s: got %s (%v)", uri, got, err)
			}
		})
		<-arrived
	}
	fetch(server.URL + "/1")
	fetch(server.URL + "/2")
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err = s.Fetch(ctx, server.URL+"/3")
	kindless(t, err, context.DeadlineExceeded)
	fetch("http://localhost:" + port + "/4")
	if n := len(arrived); n != 0 {
		t.Errorf("%d fetches too many", n)
	}
	close(release)
	wg.Wait()
	fetch(server.URL + "/5")
	wg.Wait()
}

// Being stopped is no verdict, at whatever moment; and it leaves nothing behind.
func TestCancel(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(pdf())
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	s := open(t, Config{})
	s.useS3(t, server.URL, static())
	for _, uri := range []string{server.URL + "/a.pdf", "s3://reports/a.pdf"} {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			<-begun
			cancel()
		}()
		_, err := s.Fetch(ctx, uri)
		kindless(t, err, context.Canceled)
		<-stopped
	}
}
