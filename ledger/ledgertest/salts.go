package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// salts checks that an invocation has the salt that was given first, and keeps it.
func salts(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	require.NoError(t, s.OpenRun(ctx, run()))
	ask := func(id, word string, salt []byte) (seen []byte, err error) {
		a := Ask(id, "action")
		a.Salt = salt
		_, err = s.Authorize(ctx, run(), a, func(st ledger.Standing) (ledger.Ruling, error) {
			seen = st.Salt
			return Rule(word)(st)
		})
		return seen, err
	}
	given := []byte("0123456789abcdef")
	for _, salt := range [][]byte{given, []byte("fedcba9876543210"), nil} {
		seen, err := ask("i", ledger.Escalate, salt)
		require.NoError(t, err)
		require.Equal(t, given, seen)
	}
	seen, err := ask("j", ledger.Escalate, nil)
	require.NoError(t, err)
	require.Len(t, seen, 16)
	for _, salt := range [][]byte{{}, given[1:]} {
		_, err = ask("k", ledger.Escalate, salt)
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
}
