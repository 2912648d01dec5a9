//go:build !pkcs11 || !cgo

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoTokens: a worker without support for tokens says so, and that trying again is
// pointless.
func TestNoTokens(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("chimera.yaml", []byte("store: {origin: example.com/log}\nledger: {key: 'pkcs11:token=t;object=l?module-path=/m.so'}\n"), 0o600))
	code, _, messages := drive()
	require.Equal(t, exitUsage, code)
	require.Contains(t, messages, "ledger.key: this program was built without PKCS #11; build with cgo and -tags pkcs11")
	require.NoFileExists(t, ".chimera/ledger.key")
}
