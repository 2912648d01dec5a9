package dial

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	public := []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
		"192.167.255.255", "223.255.255.255", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1", "2a00::1",
	}
	for _, s := range public {
		require.NoError(t, Guard{}.Check(netip.MustParseAddr(s)), s)
	}
	// An address, and a network that allows it.
	for s, network := range map[string]string{
		"0.0.0.0": "0.0.0.0/8", "0.1.2.3": "0.0.0.0/8", "10.0.0.1": "10.0.0.0/8", "100.64.0.1": "100.64.0.0/10", "100.127.255.255": "100.64.0.0/10",
		"127.0.0.1": "127.0.0.0/8", "127.255.0.1": "127.0.0.0/8", "169.254.169.254": "169.254.169.254/32", "172.16.0.1": "172.16.0.0/12",
		"172.31.255.255": "172.16.0.0/12", "192.168.1.1": "192.168.1.0/24", "192.0.0.8": "192.0.0.0/24", "192.0.2.1": "192.0.2.0/24",
		"198.18.0.1": "198.18.0.0/15", "224.0.0.1": "224.0.0.0/4", "239.1.1.1": "224.0.0.0/4", "240.0.0.1": "240.0.0.0/4",
		"255.255.255.255": "255.255.255.255/32",
		"::":              "::/128", "::1": "::1/128", "::127.0.0.1": "::/96", "::10.0.0.1": "::/96",
		"fc00::1": "fc00::/7", "fd12::1": "fd12::/16", "fe80::1": "fe80::/10", "fe80::1%eth0": "fe80::/10", "fec0::1": "fec0::/10",
		"ff02::1": "ff00::/8", "2001:db8::1": "2001:db8::/32", "2001:0:a00:1::": "2001::/32", "100::1": "100::/64",
		"::ffff:10.0.0.1": "10.0.0.0/8", "::ffff:127.0.0.1": "127.0.0.1/32", "::ffff:169.254.169.254": "169.254.0.0/16",
		"64:ff9b::a00:1": "64:ff9b::/96", "64:ff9b::7f00:1": "64:ff9b::7f00:1/128", "64:ff9b::a9fe:a9fe": "64:ff9b::/96",
		"64:ff9b:1::101:101": "64:ff9b:1::/48", "64:ff9b:1:ffff::1": "64:ff9b:1::/48",
		"2002:a00:1::1": "2002:a00::/24", "2002:7f00:1::": "2002::/16", "2002:c0a8:101::1": "2002::/16", "2002:e000:1::": "2002::/16",
	} {
		a := netip.MustParseAddr(s)
		var denied *Denied
		require.ErrorAs(t, Guard{}.Check(a), &denied, s)
		p, err := ParsePrefix(network)
		require.NoError(t, err, s)
		require.NoError(t, Guard{Allowed: []netip.Prefix{p}}.Check(a), s)
		require.Error(t, Guard{Allowed: prefixes("10.200.0.0/16", "fd99::/16", "64:ff9b::c0a8:0/112")}.Check(a), s)
	}
	// A network of IPv4 addresses does not allow what would reach them through a translator.
	require.Error(t, Guard{Allowed: prefixes("10.0.0.0/8")}.Check(netip.MustParseAddr("64:ff9b::a00:1")))
	require.Error(t, Guard{Allowed: prefixes("10.0.0.0/8")}.Check(netip.MustParseAddr("2002:a00:1::")))
}

// No form of an address is public unless the address is.
func TestForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		four := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		plain := Guard{}.Check(netip.AddrFrom4(four)) == nil
		var mapped, translated, tunnel [16]byte
		copy(mapped[10:], []byte{0xff, 0xff})
		copy(mapped[12:], four[:])
		copy(translated[:], []byte{0, 0x64, 0xff, 0x9b})
		copy(translated[12:], four[:])
		copy(tunnel[:], []byte{0x20, 0x02})
		copy(tunnel[2:], four[:])
		copy(tunnel[6:], rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "rest"))
		for _, form := range [][16]byte{mapped, translated, tunnel} {
			a := netip.AddrFrom16(form)
			if (Guard{}.Check(a) == nil) != plain {
				t.Fatalf("%s is not as public as %v", a, four)
			}
		}
	})
}

func TestParsePrefix(t *testing.T) {
	for _, s := range []string{"", "10.0.0.0", "10.0.0.1/8", "::ffff:10.0.0.0/104", "10.0.0.0/33", "x/8", "fe80::%eth0/10"} {
		_, err := ParsePrefix(s)
		require.Error(t, err, s)
	}
}

// The address counts, not the name, and nothing is sent to one that is refused.
func TestDialer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1"} {
		_, err = Guard{}.Dialer(time.Second).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		var denied *Denied
		require.ErrorAs(t, err, &denied, host)
		conn, err := Guard{Allowed: prefixes("127.0.0.0/8")}.Dialer(time.Second).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		require.NoError(t, err, host)
		require.NoError(t, conn.Close())
	}
}
