package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/guyline/guyline/report"
)

// startSize is how much of an answer is read for the reason of a failure, in bytes.
const startSize = 16 << 10

// transport sends a request. An answer that switches protocols loses its connection: no context would end a read of that.
type transport struct{ *http.Transport }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		resp.Body = http.NoBody
	}
	return resp, err
}

// newTransport connects by dial. It takes no proxy from the environment: behind one, the guard would see the proxy's
// address only.
func newTransport(dial func(context.Context, string, string) (net.Conn, error), perHost int) transport {
	return transport{&http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  idleLimit,
		IdleConnTimeout:        time.Minute,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    perHost,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // the bytes are wanted as they are stored
		ForceAttemptHTTP2:      true,
	}}
}

func newWeb(g *guard, perHost int) *http.Client {
	return &http.Client{
		Transport:     newTransport(g.dial, perHost),
		CheckRedirect: g.followed,
	}
}

// followed looks at a redirect before it is followed; the address is looked at when it is connected to.
func (g *guard) followed(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer") // it may carry the signature of a link
	u := next.URL
	switch {
	case len(via) > 10:
		return failure(faultRedirects, 0, errors.New("more than 10 redirects"))
	case u.User != nil:
		return failure(faultDowngrade, 0, errors.New("the redirect carries a user name or password"))
	case u.Scheme != "https" && (u.Scheme != "http" || via[len(via)-1].URL.Scheme == "https"):
		return failure(faultDowngrade, 0, fmt.Errorf("the redirect leads from %s to %.20s", via[len(via)-1].URL.Scheme, u.Scheme))
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return g.admit(u.Hostname(), port)
}

func (s *Sources) fetchWeb(ctx context.Context, u *url.URL, alive func()) (*File, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, refuse(report.CodeInvalidEvent, "no request can be made of the URI; correct source_uri")
	}
	req.Header.Set("User-Agent", "Guyline")
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := s.web.Do(req)
	if err != nil {
		return nil, wayError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNonAuthoritativeInfo {
		start, _ := io.ReadAll(io.LimitReader(resp.Body, startSize)) // what comes of it is enough
		return nil, answerError(resp.StatusCode, resp.Header, start, false)
	}
	f, err := s.spool(ctx, resp.Body, resp.ContentLength, alive, wayError)
	if err != nil {
		return nil, err
	}
	f.Came = came(resp.StatusCode, resp.Header)
	if host := resp.Request.URL.Hostname(); host != u.Hostname() {
		f.Came += ", after a redirect to " + report.Line(host, 100)
	}
	return f.unlessS3Error(resp.Header, false)
}

func came(code int, h http.Header) string {
	said := fmt.Sprintf("status %d, content type %.100q", code, h.Get("Content-Type"))
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		said += fmt.Sprintf(", content encoding %.20q", encoding)
	}
	return said
}

// answerError judges an answer that brings no file.
func answerError(code int, h http.Header, start []byte, ours bool) error {
	signal, explained := answerSignal(code, start, ours)
	said := strings.TrimSpace(fmt.Sprintf("the source answers %d %s", code, http.StatusText(code)))
	if explained != "" {
		said += ": " + quoted(explained)
	}
	return failure(signal, retryAfter(h, time.Now()), errors.New(said))
}

// unlessS3Error finds the error that S3 may send in an answer whose status says that all is well.
func (f *File) unlessS3Error(h http.Header, ours bool) (*File, error) {
	start := make([]byte, min(f.Size, startSize))
	if _, err := f.ReadAt(start, 0); err != nil {
		f.Close()
		return nil, spoolError(err)
	}
	signal, _ := answerSignal(http.StatusOK, start, ours)
	if _, fine := signal.(status); fine {
		return f, nil
	}
	err := answerError(http.StatusOK, h, start, ours)
	f.Close()
	return nil, err
}
