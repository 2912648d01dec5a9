package pkcs11

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsURI(t *testing.T) {
	for _, ref := range []string{"pkcs11:", "pkcs11:token=a", "PKCS11:token=a", "pkcs11:token=a;object=b"} {
		require.True(t, IsURI(ref), ref)
	}
	for _, ref := range []string{"", "pkcs11", "pkcs12:token=a", "./pkcs11:a", " pkcs11:a", "${file:pkcs11:a}", "p\u212acs11:a"} {
		require.False(t, IsURI(ref), ref)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]URI{
		"pkcs11:token=a;object=b":                                        {Token: "a", Object: "b"},
		"PKCS11:object=b;token=a":                                        {Token: "a", Object: "b"},
		"pkcs11:serial=00ff;id=%00%ff%41":                                {Serial: "00ff", ID: "\x00\xffA"},
		"pkcs11:token=a+b%20c%3b;object=x;id=y":                          {Token: "a+b c;", Object: "x", ID: "y"},
		"pkcs11:token=%c3%bc;object=a=b&c":                               {Token: "ü", Object: "a=b&c"},
		"pkcs11:token=a;object=b;type=private":                           {Token: "a", Object: "b"},
		"pkcs11:token=a;object=%22?module-path=/m":                       {Token: "a", Object: `"`, Module: "/m"},
		"pkcs11:token=a;object=b?pin-source=/a":                          {Token: "a", Object: "b", PINSource: "/a"},
		"pkcs11:token=a;object=b?pin-source=file:/a&module-path=/b/c%26": {Token: "a", Object: "b", Module: "/b/c&", PINSource: "/a"},
		"pkcs11:token=a;object=b?pin-source=file:///a/b":                 {Token: "a", Object: "b", PINSource: "/a/b"},
		"pkcs11:token=The%20Token;manufacturer=Snake%20Oil,%20Inc.;model=1.0;serial=1;object=k": {
			Token: "The Token", Manufacturer: "Snake Oil, Inc.", Model: "1.0", Serial: "1", Object: "k",
		},
	} {
		u, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, u, text)
		again, err := Parse(u.String())
		require.NoError(t, err, u.String())
		require.Equal(t, u, again)
	}
	require.Equal(t, "pkcs11:token=a%20b;object=%C3%BC;id=%00?module-path=/m/n.so&pin-source=file:/p",
		URI{Token: "a b", Object: "ü", ID: "\x00", Module: "/m/n.so", PINSource: "/p"}.String())
}

func TestParseRefuses(t *testing.T) {
	const good = "pkcs11:token=a;object=b"
	for text, want := range map[string]string{
		"":                                      "does not begin with pkcs11:",
		"token=a;object=b":                      "does not begin with pkcs11:",
		"pkcs11:":                               "NAME=VALUE",
		"pkcs11:token=a":                        "names no key",
		"pkcs11:object=a":                       "names no token",
		"pkcs11:model=a;object=a":               "names no token",
		"pkcs11:?module-path=/a":                "NAME=VALUE",
		good + ";":                              "NAME=VALUE",
		good + "?":                              "NAME=VALUE",
		good + ";id":                            "NAME=VALUE",
		good + ";id=":                           "id is empty",
		good + ";token=a":                       "token is given twice",
		good + "?module-path=/a&module-path=/a": "module-path is given twice",
		good + ";color=red":                     `no attribute "color"`,
		good + ";Token=a":                       `no attribute "Token"`,
		good + ";x-vendor=1":                    `no attribute "x-vendor"`,
		good + "?x-vendor=1":                    `no attribute "x-vendor"`,
		good + ";module-path=/a":                `no attribute "module-path"`,
		good + "?token=a":                       `no attribute "token"`,
		good + ";slot-id=1":                     "slot-id is not supported",
		good + ";library-version=1":             "library-version is not supported",
		good + "?module-name=a":                 "module-name is not supported",
		good + "?pin-value=1234":                "pin-value is not supported",
		good + ";type=public":                   "the key must be private",
		good + ";type=secret-key":               "the key must be private",
		good + ";id=%":                          "%XX is cut off",
		good + ";id=%4":                         "%XX is cut off",
		good + ";id=%4g":                        "two hexadecimal digits",
		good + ";id=a b":                        "0x20 must be written as %20",
		good + ";id=a/b":                        "0x2F must be written as %2F",
		good + ";id=ü":                          "0xC3 must be written as %C3",
		good + "#f":                             "0x23 must be written as %23",
		good + ";serial=%ff":                    "it is not UTF-8",
		good + ";serial=%00":                    "cannot be printed",
		good + ";serial=%0a":                    "cannot be printed",
		good + "?module-path=a":                 "must be absolute",
		good + "?module-path=/a%00b":            "cannot be printed",
		good + "?pin-source=a":                  "must be absolute",
		good + "?pin-source=file:a":             "must be absolute",
		good + "?pin-source=file://a/b":         "begin with one /",
		good + "?pin-source=file:////b":         "begin with one /",
		good + "?pin-source=//a":                "begin with one /",
		good + "?pin-source=|/bin/pin":          "programs are not run",
		good + "?pin-source=file:/a%2541":       "must not have %",
		"pkcs11:object=b;token=" + strings.Repeat("a", 33):  "token has 33 bytes, more than 32",
		"pkcs11:object=b;serial=" + strings.Repeat("a", 17): "serial has 17 bytes, more than 16",
		good + ";id=" + strings.Repeat("a", 129):            "id has 129 bytes, more than 128",
		good + ";id=" + strings.Repeat("%", 4096):           "more than 4096",
	} {
		_, err := Parse(text)
		require.ErrorIs(t, err, ErrURI, text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "1234", "a PIN is not repeated")
		require.Less(t, len(err.Error()), 300)
	}
}

// FuzzURI: a URI is refused, or has one form that says the same, within the bounds.
func FuzzURI(f *testing.F) {
	for _, seed := range []string{
		"pkcs11:token=a;object=b", "pkcs11:serial=00ff;id=%00%ff%41?module-path=/m&pin-source=file:/p",
		"PKCS11:token=a;manufacturer=b,%20c;model=d;object=%c3%bc;type=private?pin-source=file:///p",
		"pkcs11:token=a;object=b?pin-value=1", "pkcs11:token=a;object=b?pin-source=|/bin/x", "pkcs11:a=%", "pkcs11:;;?&",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrURI)
			require.Zero(t, u)
			require.Less(t, len(err.Error()), 600)
			return
		}
		require.True(t, IsURI(text))
		require.True(t, u.Token != "" || u.Serial != "")
		require.True(t, u.Object != "" || u.ID != "")
		for _, path := range []string{u.Module, u.PINSource} {
			require.True(t, path == "" || path[0] == '/')
			require.NotContains(t, path, "\x00")
		}
		again, err := Parse(u.String())
		require.NoError(t, err, u.String())
		require.Equal(t, u, again)
		require.Equal(t, u.String(), again.String())
	})
}
