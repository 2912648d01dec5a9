//go:build !pkcs11 || !cgo

package pkcs11

import (
	"crypto"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotBuilt(t *testing.T) {
	_, err := Open(t.Context(), "pkcs11:token=a", nil)
	require.ErrorIs(t, err, ErrURI)
	_, err = Open(t.Context(), "pkcs11:token=a;object=b?module-path=/m", nil)
	require.ErrorIs(t, err, ErrNotBuilt)
	require.ErrorContains(t, err, "-tags pkcs11")
	var k crypto.Signer = new(Key)
	_, err = k.Sign(nil, nil, crypto.Hash(0))
	require.ErrorIs(t, err, ErrNotBuilt)
}
