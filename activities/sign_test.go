package activities

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/trust/pkcs11"
)

// TestUnsigned: a run waits for a token that is away, and not for a key that cannot be used.
func TestUnsigned(t *testing.T) {
	for from, want := range map[error]contract.Kind{
		pkcs11.ErrAway: contract.StoreUnavailable, pkcs11.ErrPIN: contract.Blocked, pkcs11.ErrKey: contract.Blocked,
		errors.New("the module is confused"): contract.StoreUnavailable,
	} {
		err := unsigned(fmt.Errorf("sign: %w", from))
		require.ErrorIs(t, err, from)
		var e *contract.Error
		require.ErrorAs(t, refusal(fmt.Errorf("authorize: %w", err)), &e)
		require.Equal(t, want, e.Kind, from)
		require.Contains(t, e.Message, from.Error())
	}
	require.NoError(t, unsigned(nil))
}
