package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
)

// TestHintOfStore: the hint is about what is missing.
func TestHintOfStore(t *testing.T) {
	hint := func(err error) string {
		var f *failure
		require.True(t, errors.As(storeError(err), &f))
		require.Equal(t, exitUnanswered, f.code)
		return f.hint
	}
	for _, missing := range []error{keyring.ErrNone, keyring.ErrMissing} {
		text := hint(fmt.Errorf("erase a subject: %w: %w", ledger.ErrUnavailable, missing))
		require.Contains(t, text, "ledger.subjects")
		require.NotContains(t, text, "store.url")
	}
	require.Contains(t, hint(ledger.ErrUnavailable), "store.url")
}
