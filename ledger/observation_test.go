package ledger_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/ledger"
)

// In whatever parts KPIs are observed, what is observed at last is the same, each counts once, and what
// is observed again changes nothing.
func TestObserveInParts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 8, rapid.ID[string]).Draw(r, "names")
		values, kpis := map[string]any{}, []any{}
		for _, name := range names {
			kpis = append(kpis, map[string]any{"variable": name})
			values[name] = any(rapid.Float64Range(-1e300, 1e300).Draw(r, "number"))
			if rapid.Bool().Draw(r, "text") {
				values[name] = rapid.StringMatching(`[ -~é]{1,9}`).Draw(r, "value")
			}
		}
		prediction, err := json.Marshal(map[string]any{"kpis": kpis})
		require.NoError(t, err)
		begun := ledger.Hypothesis{Prediction: prediction, State: ledger.HypothesisOpen}
		raw := func(v any) json.RawMessage {
			b, err := json.Marshal(v)
			require.NoError(t, err)
			return b
		}
		whole, fresh, count, err := begun.Observe(raw(values))
		require.NoError(t, err)
		require.Equal(t, len(names), count)
		require.Equal(t, string(whole.Observed), string(fresh))
		h := begun
		for i, name := range rapid.Permutation(names).Draw(r, "order") {
			part := raw(map[string]any{name: values[name]})
			next, fresh, count, err := h.Observe(part)
			require.NoError(t, err)
			require.Equal(t, i+1, count)
			require.NotNil(t, fresh)
			same, fresh, _, err := next.Observe(part)
			require.NoError(t, err)
			require.Nil(t, fresh)
			require.Equal(t, next, same)
			_, _, _, err = next.Observe(raw(map[string]any{name: fmt.Sprint(values[name], "!")}))
			require.ErrorIs(t, err, ledger.ErrConflict)
			h = next
		}
		require.Equal(t, string(whole.Observed), string(h.Observed))
	})
}
