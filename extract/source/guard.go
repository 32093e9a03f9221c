package source

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/guyline/guyline/report"
)

// guard decides which hosts and addresses may be reached: a URI comes from a stranger, the network behind this worker
// is ours. Names are judged as written; addresses after resolution, at the moment of connecting, so that a name
// which resolves to something else the second time gains nothing.
type guard struct {
	allow  []entry
	others bool       // hosts that are not listed are welcome too, at public addresses
	open   net.Dialer // for listed hosts
	strict net.Dialer // refuses addresses that are not public
}

// entry is one of Config.AllowHosts.
type entry struct{ host, port string } // host may begin with "*."; port may be empty

func newGuard(allow []string) (*guard, error) {
	g := &guard{others: len(allow) == 0, open: net.Dialer{Timeout: 10 * time.Second}}
	for i, written := range allow {
		if written == "*" {
			g.others = true
			continue
		}
		e, ok := parseEntry(strings.ToLower(written))
		if !ok {
			return nil, fmt.Errorf("number %d of %d is no host, host:port, *.suffix or *", i+1, len(allow)) // it may hold a password
		}
		g.allow = append(g.allow, e)
	}
	g.strict = g.open
	g.strict.Control = refusePrivate
	return g, nil
}

func parseEntry(s string) (entry, bool) {
	e := entry{host: s}
	if host, port, err := net.SplitHostPort(s); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return e, false
		}
		e = entry{host, port}
	}
	e.host = strings.TrimSuffix(strings.Trim(e.host, "[]"), ".")
	name := strings.TrimPrefix(e.host, "*.")
	if strings.Contains(name, ":") {
		_, err := netip.ParseAddr(name)
		return e, err == nil
	}
	return e, name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}

// admit refuses a host that is not allowed by name. It resolves nothing.
func (g *guard) admit(host, port string) error {
	if g.others || g.listed(host, port) {
		return nil
	}
	return refuse(report.CodeRefusedAddress, "the host %s is not among the allowed ones; allow it, or correct source_uri", host)
}

func (g *guard) listed(host, port string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(g.allow, func(e entry) bool {
		if e.port != "" && e.port != port {
			return false
		}
		if suffix, ok := strings.CutPrefix(e.host, "*"); ok {
			return strings.HasSuffix(host, suffix) && host != suffix
		}
		return host == e.host
	})
}

// dial connects to a host and port: a listed host wherever it is, another one only at a public address.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if g.listed(host, port) {
		return g.open.DialContext(ctx, network, address)
	}
	return g.strict.DialContext(ctx, network, address)
}

// refusePrivate is called with each address before it is connected to.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return refuse(report.CodeRefusedAddress, "the address is not a public one; allow its host by name, or correct source_uri")
	}
	return nil
}

// public reports whether an address belongs to the internet at large.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) { // NAT64: an IPv4 address inside
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false // loopback, link-local, multicast, unspecified; 10/8, 172.16/12, 192.168/16, fc00::/7
	}
	for _, not := range []string{
		"0.0.0.0/8",        // this network
		"100.64.0.0/10",    // carrier-grade NAT
		"168.63.129.16/32", // Azure's host agent
		"192.0.0.0/24",     // protocol assignments
		"192.0.2.0/24",     // documentation, also the next two
		"198.51.100.0/24",
		"203.0.113.0/24",
		"192.88.99.0/24", // 6to4 relays
		"198.18.0.0/15",  // benchmarks
		"240.0.0.0/4",    // reserved
		"2001::/23",      // protocol assignments, Teredo among them
		"2001:db8::/32",  // documentation
		"2002::/16",      // 6to4: an IPv4 address inside
	} {
		if netip.MustParsePrefix(not).Contains(a) {
			return false
		}
	}
	return a.Is4() || netip.MustParsePrefix("2000::/3").Contains(a)
}
