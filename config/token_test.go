package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestToken: the URI of a key is completed by the module of the configuration.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ key, module, want, fails string }{
		{"pkcs11:token=t;object=k", "/lib/m.so", "pkcs11:token=t;object=k?module-path=/lib/m.so", ""},
		{"PKCS11:object=k;token=t", "m.so", "pkcs11:token=t;object=k?module-path=" + filepath.Join(dir, "m.so"), ""},
		{"pkcs11:token=t;object=k?module-path=/own.so&pin-source=file:/pin", "/lib/m.so", "pkcs11:token=t;object=k?module-path=/own.so&pin-source=file:/pin", ""},
		{"pkcs11:token=t;object=k", "", "", "guardian.key names no module of its token: set pkcs11.module, or give module-path in the URI"},
	} {
		config, ds := parse(filepath.Join(dir, "c.yaml"), []byte("guardian: {key: '"+c.key+"'}"), surroundings())
		require.Empty(t, ds)
		if c.module != "" {
			config, ds = parse(filepath.Join(dir, "c.yaml"), []byte("pkcs11: {module: "+c.module+"}"), surroundings("CHIMERA_GUARDIAN_KEY="+c.key))
			require.Empty(t, ds)
		}
		require.True(t, config.Guardian.Key.OnToken())
		uri, err := config.Token("guardian.key", config.Guardian.Key)
		if c.fails != "" {
			require.EqualError(t, err, c.fails)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, uri)
	}
	require.False(t, Secret("").OnToken())
	require.False(t, Secret("${env:A}").OnToken())
	_, err := Config{}.Token("--key", "pkcs11:x")
	require.ErrorContains(t, err, "--key names no key on a token")
	_, err = Config{}.PIN()
	require.ErrorContains(t, err, "pkcs11.pin is not set")
}

// TestRolesReadTheirPIN: a process reads the PIN of its own keys on tokens, to hide it, and
// no other.
func TestRolesReadTheirPIN(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own-pin")
	require.NoError(t, os.WriteFile(own, []byte("own-secret\n"), 0o600))
	t.Setenv("T_PIN", "token-secret")
	t.Setenv("T_KEY", "file-secret")
	load := func(text string) Config {
		file := filepath.Join(dir, "chimera.yaml")
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "OWN", own)), 0o600))
		c, ds := Load(file)
		require.Empty(t, ds)
		return c
	}
	const pin = "pkcs11: {pin: '${env:T_PIN}'}\n"
	const guardian, log, start = "guardian: {key: 'pkcs11:token=t;object=g'}\n", "ledger: {key: 'pkcs11:token=t;object=l'}\n", "trust: {start_key: 'pkcs11:token=t;object=s'}\n"
	for name, c := range map[string]struct {
		text, role string
		want       []Secret
	}{
		"the guardian's":     {pin + guardian, "guardian", []Secret{"token-secret"}},
		"the log's":          {pin + log, "engine", []Secret{"token-secret"}},
		"another role's":     {pin + guardian, "engine", nil},
		"also another's":     {pin + log + guardian, "effects", nil},
		"a command's":        {pin + start, "engine", nil},
		"no key on a token":  {pin + "guardian: {key: '${env:T_KEY}'}", "guardian", []Secret{"file-secret"}},
		"of the URI":         {pin + "guardian: {key: 'pkcs11:token=t;object=g?pin-source=file:OWN'}", "guardian", []Secret{"own-secret"}},
		"of another's URI":   {pin + "guardian: {key: 'pkcs11:token=t;object=g?pin-source=file:OWN'}", "engine", nil},
		"of a URI, and both": {pin + log + "guardian: {key: 'pkcs11:token=t;object=g?pin-source=file:OWN'}", "", []Secret{"token-secret", "own-secret"}},
		"of a command":       {pin + start, "", []Secret{"token-secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := load(c.text)
			if c.role != "" {
				var err error
				config, err = config.Resolve(c.role)
				require.NoError(t, err)
			}
			require.ElementsMatch(t, c.want, config.Secrets())
			open, err := config.PIN()
			require.NoError(t, err)
			require.Equal(t, "token-secret", open)
		})
	}
}
