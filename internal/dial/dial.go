// Package dial connects only to addresses that a configuration means. An address counts as
// it was resolved, at each dial, so that no name in the DNS leads inside a network.
//
// Public unicast addresses may be dialled. All others are refused unless a configured network
// holds them: loopback, private, shared (CGNAT), link-local, unique-local, multicast,
// unspecified, and those that the IANA special-purpose registries reserve. An address that carries
// an IPv4 address through NAT64 or 6to4 is as public as that is; only a network of IPv6
// addresses allows it.
package dial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Guard says which addresses may be dialled. The zero Guard refuses all that are not public.
type Guard struct {
	// Allowed are networks whose addresses may be dialled whatever they are.
	Allowed []netip.Prefix
}

// Denied is the error of a dial that a guard refuses.
type Denied struct{ Addr netip.Addr }

func (d *Denied) Error() string {
	return fmt.Sprintf("%s is not a public address, and no configured network holds it", d.Addr)
}

// Check returns a *[Denied] if the address may not be dialled.
func (g Guard) Check(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	for _, p := range g.Allowed {
		if p.Contains(a) {
			return nil
		}
	}
	if !public(a) {
		return &Denied{a}
	}
	return nil
}

// Dialer returns a dialer that refuses addresses by the guard. A dial takes at most timeout.
func (g Guard) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("the address to dial: %w", err)
			}
			return g.Check(a.Addr())
		},
	}
}

// ParsePrefix reads a network such as 10.0.0.0/8 or fd00::/8. It refuses one with bits beyond
// its length, and one of IPv4 addresses in the form of IPv6.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a network such as 10.0.0.0/8", s)
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is a network of IPv4 addresses: write it as one", s)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its length: it is %s", s, p.Masked())
	}
	return p, nil
}

// special are the networks that are not public, of those that are not found by netip: from
// the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890).
var special = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
)

// nat64 and sixToFour have an IPv4 address in their last four bytes and in their third to sixth (RFC 6052,
// RFC 3056).
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, s := range all {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether an address is a public unicast address.
func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	if !a.Is6() {
		return true
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return public(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(a):
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return true
}
