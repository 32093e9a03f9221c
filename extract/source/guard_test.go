package source

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "::": false, "0.0.0.0": false, "0.1.2.3": false,
		"10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "169.254.169.254": false,
		"fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "fc00::1": false, "fd00:ec2::254": false,
		"100.64.0.1": false, "100.100.100.200": false, "192.0.0.1": false, "198.18.0.1": false, "168.63.129.16": false,
		"224.0.0.1": false, "255.255.255.255": false, "250.0.0.1": false, "ff02::1": false, "2001:db8::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true, "::127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::808:808": true, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001:0:7f00:1::": false,
		"8.8.8.8": true, "172.32.0.1": true, "100.128.0.1": true, "2606:4700::1111": true,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "a/b", "https://a", "u@a", "u:secret@a", "https://secret@a", "a*", "*.", "a b", "*.*.a", "a:b:c", "a:99999", "a:"} {
		if _, err := newGuard([]string{wrong}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q was taken for an allowed host, or is shown: %v", wrong, err)
		}
	}
	for _, tt := range []struct {
		allow            []string
		host, port       string
		admitted, listed bool
	}{
		{nil, "a.example", "443", true, false},
		{[]string{"*"}, "a.example", "443", true, false},
		{[]string{"*", "a.example"}, "a.example", "443", true, true},
		{[]string{"A.example"}, "a.EXAMPLE.", "1", true, true},
		{[]string{"a.example"}, "b.example", "443", false, false},
		{[]string{"a.example"}, "x.a.example", "443", false, false},
		{[]string{"a.example:8443"}, "a.example", "443", false, false},
		{[]string{"a.example:8443"}, "a.example", "8443", true, true},
		{[]string{"*.a.example"}, "x.y.a.example", "443", true, true},
		{[]string{"*.a.example"}, "a.example", "443", false, false},
		{[]string{"*.a.example"}, "evila.example", "443", false, false},
		{[]string{"[::1]:80", "2001:db8::1"}, "::1", "80", true, true},
		{[]string{"[::1]:80", "2001:db8::1"}, "2001:db8::1", "443", true, true},
	} {
		g, err := newGuard(tt.allow)
		must(t, err)
		if err := g.admit(tt.host, tt.port); (err == nil) != tt.admitted || g.listed(tt.host, tt.port) != tt.listed {
			t.Errorf("%v: %s:%s: admitted %t, listed %t, want %t, %t", tt.allow, tt.host, tt.port, err == nil, !tt.listed, tt.admitted, tt.listed)
		}
	}
}

// A name that resolves into our own network, as an attacker's name server may have it, leads nowhere.
func TestResolved(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(pdf()) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(hostOf(t, server.URL))
	must(t, err)
	names := nameServer(t)
	s := open(t, Config{AllowHosts: []string{"*", "portal.example"}})
	s.guard.open.Resolver, s.guard.strict.Resolver = names, names
	for uri, want := range map[string]string{
		"http://rebind.example:" + port + "/a.pdf":             "poison refused-address",
		"http://rebind6.example:" + port + "/a.pdf":            "poison refused-address",
		"sftp://rebind.example:" + port + "/a.pdf":             "hold unauthorized", // no login is configured
		server.URL + "/a.pdf":                                  "poison refused-address",
		"http://[::ffff:127.0.0.1]:" + port + "/a.pdf":         "poison refused-address",
		"http://missing.example./a.pdf?sig=" + secret:          "hold no-such-host",
		"http://broken.example./a.pdf?sig=" + secret:           "transient connection",
		"http://portal.example:" + port + "/a.pdf?x=" + secret: "fine",
	} {
		if got, err := fetched(t, s, uri, pdf()); got != want {
			t.Errorf("%s: got %s (%v), want %s", uri, got, err, want)
		}
	}
}

// nameServer resolves a few names, and knows that there are no others.
func nameServer(t *testing.T) *net.Resolver {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
			switch name := q.Name.String(); {
			case name == "broken.example.":
				m.RCode = dnsmessage.RCodeServerFailure
			case name == "rebind6.example." && q.Type == dnsmessage.TypeAAAA:
				m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("::1").As16()}}}
			case (name == "rebind.example." || name == "portal.example.") && q.Type == dnsmessage.TypeA:
				m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			case name != "rebind.example." && name != "rebind6.example." && name != "portal.example.":
				m.RCode = dnsmessage.RCodeNameError
			}
			if out, err := m.Pack(); err == nil {
				conn.WriteTo(out, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
