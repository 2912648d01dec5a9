package ledgertest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// rules: kept rules are found by their digests, and only those that are what they say.
func rules(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	keep := func(digest string, rules string) {
		data, err := json.Marshal(ledger.RulesData{Digest: digest, Rules: json.RawMessage(rules)})
		require.NoError(t, err)
		_, err = s.Append(ctx, ledger.Draft{Chain: ledger.RulesChain, Key: string(ledger.RulesKept) + "/" + digest, Kind: ledger.RulesKept, Data: data})
		require.NoError(t, err)
	}
	of := func(rules string) string { return ledger.BodyDigest([]byte(rules)) }
	found, err := ledger.ReadRules(ctx, s, of("null"))
	require.NoError(t, err)
	require.Empty(t, found)
	for i := range 3 {
		text := fmt.Sprintf(`{"version":"%d"}`, i)
		keep(of(text), text)
	}
	first, last := `{"version":"0"}`, `{"version":"2"}`
	found, err = ledger.ReadRules(ctx, s, of(last), of("null"), of(first), of(last))
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.JSONEq(t, first, string(found[of(first)]))
	require.JSONEq(t, last, string(found[of(last)]))
	keep(of("null"), first)
	_, err = ledger.ReadRules(ctx, s, of("null"))
	require.ErrorIs(t, err, ledger.ErrInvalid)
}
