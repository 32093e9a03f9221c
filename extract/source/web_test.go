package source

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// website answers each path in its own way.
func website(t testing.TB) *httptest.Server {
	body := pdf()
	hijack := func(w http.ResponseWriter, raw string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		must(t, err)
		io.WriteString(conn, raw)
		conn.Close()
	}
	mux := http.NewServeMux()
	for path, serve := range map[string]http.HandlerFunc{
		"/a.pdf": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Referer") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
				t.Errorf("the request carries too much: %v", r.Header)
			}
			w.Header().Set("Content-Type", "application/pdf")
			w.Write(body)
		},
		"/chunked": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.Write(body) },
		"/empty":   func(http.ResponseWriter, *http.Request) {},
		"/short": func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n%PDF-")
		},
		"/cut": func(w http.ResponseWriter, _ *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%PDF-\r\n")
		},
		"/garbage":   func(w http.ResponseWriter, _ *http.Request) { hijack(w, "SSH-2.0-x\r\n") },
		"/closed":    func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") },
		"/switched":  switched,
		"/manyheads": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("y", 1<<20)) },
		"/silent":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/stalled": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("%PDF-"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"/stallederror": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte("<Error>"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"/large":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", fmt.Sprint(1<<40)) },
		"/larger": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); io.Copy(w, endless{}) },
		"/s3slow": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "9")
			io.WriteString(w, "<?xml version='1.0'?>\n<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>")
		},
		"/login": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>log in</html>") },
		"/gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("\x1f\x8b"))
		},
		"/redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.Query().Get("to"))
			w.WriteHeader(http.StatusFound)
		},
		"/loop": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/loop?sig="+secret, http.StatusFound)
		},
		"/hops/{n}": func(w http.ResponseWriter, r *http.Request) {
			if next := strings.TrimSuffix(r.PathValue("n"), "i"); next != "" {
				http.Redirect(w, r, "/hops/"+next, http.StatusTemporaryRedirect)
				return
			}
			w.Write(body)
		},
		"/hops/": func(w http.ResponseWriter, _ *http.Request) { w.Write(body) },
	} {
		mux.HandleFunc(path, serve)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// switched answers as if the client had asked for another protocol, and says nothing in that.
func switched(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	io.Copy(io.Discard, conn) // until the client has had enough
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestWeb(t *testing.T) {
	t.Parallel()
	site := website(t)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of refused certificates
	secure.StartTLS()
	t.Cleanup(secure.Close)
	reset := listen(t, func(conn net.Conn) {
		conn.Read(make([]byte, 1))
		conn.(*net.TCPConn).SetLinger(0)
	})
	closed := httptest.NewServer(nil)
	closed.Close()
	noTLS := listen(t, func(conn net.Conn) { io.WriteString(conn, "220 mail.example ESMTP\r\n") })
	oldTLS := listen(t, func(conn net.Conn) {
		tls.Server(conn, &tls.Config{MaxVersion: tls.VersionTLS10, Certificates: secure.TLS.Certificates}).Handshake()
	})
	s := open(t, Config{MaxBytes: 1 << 20})
	for _, tt := range []struct{ uri, want string }{
		{site.URL + "/empty", "transient still-uploading 30s"},
		{site.URL + "/short", "transient short-read"},
		{site.URL + "/cut", "transient short-read"},
		{site.URL + "/garbage", "transient connection"},
		{site.URL + "/closed", "transient connection"},
		{site.URL + "/switched", "poison bad-request"},
		{site.URL + "/manyheads", "transient connection"},
		{site.URL + "/large", "poison too-large"},
		{site.URL + "/larger", "poison too-large"},
		{site.URL + "/s3slow", "transient throttled 9s"},
		{"http://" + reset + "/a.pdf?sig=" + secret, "transient connection"},
		{closed.URL + "/a.pdf?sig=" + secret, "transient connection"},
		{secure.URL + "/a.pdf?sig=" + secret, "hold bad-certificate"},
		{"https://" + hostOf(t, site.URL) + "/a.pdf", "hold bad-certificate"},
		{"https://" + noTLS + "/a.pdf", "hold bad-certificate"},
		{"https://" + oldTLS + "/a.pdf", "hold bad-certificate"},
		{site.URL + "/loop?sig=" + secret, "poison too-many-redirects"},
		{site.URL + "/hops/iiiiiiiiiiii", "poison too-many-redirects"},
		{site.URL + "/hops/iiiiiiiiiii", "fine"},
		{site.URL + "/redirect?to=/a.pdf", "fine"},
		{site.URL + "/redirect?to=ftp://127.0.0.1/a.pdf", "poison refused-address"},
		{site.URL + "/redirect?to=file:///etc/passwd", "poison refused-address"},
		{site.URL + "/redirect?to=http://u:" + secret + "@127.0.0.1/a.pdf", "poison refused-address"},
		{site.URL + "/redirect?to=http://169.254.169.254/latest?x=" + secret, "poison refused-address"},
		{site.URL + "/redirect?to=http://[::1]/x", "poison refused-address"},
		{site.URL + "/redirect?to=http://h/%25zz%3Fsig=" + secret, "poison bad-request"},
		{site.URL + "/redirect", "poison bad-request"},
		{site.URL + "/chunked", "fine"},
		{site.URL + "/a.pdf?sig=" + secret, "fine"},
	} {
		if got, err := fetched(t, s, tt.uri, pdf()); got != tt.want {
			t.Errorf("%s: got %s (%v), want %s", tt.uri, got, err, tt.want)
		}
	}
}

// A redirect may not lead where the URI itself may not, even if every host is allowed by name.
func TestRedirectToPrivate(t *testing.T) {
	t.Parallel()
	site := website(t)
	other := website(t)
	s := open(t, Config{AllowHosts: []string{"*", hostOf(t, site.URL)}})
	for uri, want := range map[string]string{
		site.URL + "/redirect?to=/a.pdf":                  "fine",
		site.URL + "/redirect?to=" + other.URL + "/a.pdf": "poison refused-address",
		other.URL + "/a.pdf":                              "poison refused-address",
	} {
		if got, err := fetched(t, s, uri, pdf()); got != want {
			t.Errorf("%s: got %s (%v), want %s", uri, got, err, want)
		}
	}
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	site := website(t)
	secure := httptest.NewTLSServer(http.RedirectHandler(site.URL+"/a.pdf?sig="+secret, http.StatusFound))
	t.Cleanup(secure.Close)
	s := open(t, Config{})
	s.web.Transport.(transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	if got, err := fetched(t, s, secure.URL, nil); got != "poison refused-address" {
		t.Errorf("got %s (%v)", got, err)
	}
}

func TestCame(t *testing.T) {
	t.Parallel()
	site := website(t)
	_, port, err := net.SplitHostPort(hostOf(t, site.URL))
	must(t, err)
	s := open(t, Config{})
	for uri, want := range map[string]string{
		site.URL + "/a.pdf": `status 200, content type "application/pdf"`,
		site.URL + "/login": `status 200, content type "text/html; charset=utf-8"`,
		site.URL + "/gzip":  `status 200, content type "", content encoding "gzip"`,
		site.URL + "/redirect?to=http://localhost:" + port + "/login": `status 200, content type "text/html; charset=utf-8", after a redirect to localhost`,
	} {
		f, err := s.Fetch(t.Context(), uri)
		must(t, err)
		if !strings.HasPrefix(f.Came, strings.TrimSuffix(want, `""`)) && f.Came != want {
			t.Errorf("%s: came %s, want %s", uri, f.Came, want)
		}
		must(t, f.Close())
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	site := website(t)
	ssh := newSSHServer(t, stubSFTP)
	mute := listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	login := ssh.login()
	login.KnownHosts = knownAs(t, mute, ssh)
	patient, hasty := open(t, Config{SFTP: login}), open(t, Config{SFTP: login})
	hasty.idle = 100 * short
	for _, uri := range []string{
		site.URL + "/silent", site.URL + "/stalled", site.URL + "/stallederror", "http://" + mute + "/a.pdf", "https://" + mute + "/a.pdf",
		"sftp://" + mute + "/a.pdf", "sftp://" + ssh.address + "/silent",
	} {
		t.Run(uri, func(t *testing.T) {
			t.Parallel()
			want := "transient timeout"
			if strings.HasSuffix(uri, "/stallederror") { // enough has come to know
				want = "transient not-found 1m0s"
			}
			if got, err := fetched(t, hasty, uri, nil); got != want {
				t.Errorf("got %s (%v), want %s", got, err, want)
			}
			// The caller's own deadline is the caller's business.
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			_, err := patient.Fetch(ctx, uri)
			kindless(t, err, context.DeadlineExceeded)
		})
	}
}
