//go:build !pkcs11 || !cgo

package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/config"
	"chimera.ai/engine/host"
	"chimera.ai/engine/trust/pkcs11"
)

// TestNoTokens: a program without support for tokens says so.
func TestNoTokens(t *testing.T) {
	c := config.Config{PKCS11: config.PKCS11{Module: "/m.so"}}
	_, done, err := host.OpenKey(t.Context(), c, "guardian.key", "pkcs11:token=t;object=g")
	require.ErrorIs(t, err, pkcs11.ErrNotBuilt)
	require.ErrorContains(t, err, "guardian.key: this program was built without PKCS #11")
	require.True(t, host.Unusable(err))
	require.NoError(t, done())
}
